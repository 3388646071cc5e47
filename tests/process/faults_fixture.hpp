// A run that something happens to; no process of it may be left at the end.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/files.hpp"
#include "harness.hpp"
#include "run/layout.hpp"

namespace rekindle::process_test {

class Faults : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_TRUE(eventually([&] { return processes_with(dir()).empty(); }));
  }
  void reach(Program& program, std::uint64_t step) {
    ASSERT_TRUE(eventually([&] { return reached_step(dir()) >= step || !program.running(); }));
    ASSERT_TRUE(program.running());
  }
  fs::path dir() const { return scratch_ / "run"; }
  std::string log() const { return read_text(run::Layout(dir()).log("coordinator")).value_or(""); }
  Scratch scratch_;
};

}  // namespace rekindle::process_test
