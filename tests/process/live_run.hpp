// A test with one run that goes on until it is asked to stop, and is then finished and compared with a quiet
// one.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "harness.hpp"

namespace rekindle::process_test {

class LiveRun : public ::testing::Test {
 protected:
  void TearDown() override;
  fs::path dir() const { return scratch_ / "run"; }
  std::string log() const;  // the coordinator's
  bool logged(const std::string& words) const { return log().find(words) != std::string::npos; }
  // How often `words` stand in the log.
  int times_logged(const std::string& words) const;
  // Every line of every trainer's log.
  std::string trainer_logs() const;

  void begin(int workers, const Arguments& more = {}, const Arguments& prefix = {});
  void wait_for_step(std::uint64_t step);
  void wait_for_steps(std::uint64_t more) { wait_for_step(reached_step(dir()) + more); }
  void wait_for_log(const std::string& words, int times = 1);
  // Asks the run to stop, finishes it at a step that it has not reached, and compares.
  void stop_and_compare();
  // The same for a run that has ended with 75.
  void finish_and_compare();

  Scratch scratch_;
  std::optional<Program> program_;
};

}  // namespace rekindle::process_test
