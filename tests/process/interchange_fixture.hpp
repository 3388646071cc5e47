// Runs of one worker whose weights are exported and imported.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>

#include "checkpoint/tensor_file.hpp"
#include "harness.hpp"

namespace rekindle::process_test {

// With a learning rate of 0, a step changes only the state of the optimizer.
inline const Arguments kStill = {"--optimizer", "sgd", "--lr", "0", "--weight-decay", "0"};

inline std::span<const std::byte> bytes_of(const checkpoint::Tensors& tensors, const std::string& name) {
  for (const auto& tensor : tensors.state) {
    if (tensor.spec.name == name) return tensor.bytes;
  }
  ADD_FAILURE() << "no tensor " << name;
  return {};
}

class Interchange : public ::testing::Test {
 protected:
  fs::path at(const std::string& name) const { return scratch_ / name; }

  void finish(const fs::path& dir, int steps, const Arguments& more) const {
    const Outcome outcome = run(mnist_run(dir, 1, steps) + more);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  }
  // The initial weights of a run with `seed`, as a file.
  fs::path initial_weights(const std::string& seed, const std::string& file) const {
    const fs::path dir = scratch_ / ("still-" + seed);
    fs::path path = scratch_ / file;
    if (!fs::exists(dir)) finish(dir, 1, kStill + Arguments{"--seed", seed});
    const Outcome exported = run({"export", dir, path});
    EXPECT_EQ(exported.exit_code, 0) << exported.err;
    return path;
  }
  void refused(const fs::path& dir, const Arguments& more, int exit_code, const std::string& what) const {
    const Outcome outcome = run(mnist_run(dir, 1, 4) + more);
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
    EXPECT_NE(outcome.err.find(what), std::string::npos) << what << "\nsaid: " << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }

  Scratch scratch_;
};

}  // namespace rekindle::process_test
