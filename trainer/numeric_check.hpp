// The numeric handshake: computes one gradient twice, to see whether this machine is deterministic, and
// hashes it for the comparison with other machines. A fingerprint lists only known causes of different bits;
// a computed gradient also shows unknown ones. An error that only evaluations have would end the run after
// its first epoch.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.hpp"
#include "trainer/task.hpp"

namespace rekindle::trainer {

struct NumericCheck {
  std::string hash;    // hash of the gradient tensors and the loss
  std::string values;  // of parameters and buffers: a gradient does not show those that it does not depend on
  // The first tensor with a mismatch between the two results, or "the loss"; empty: none.
  std::string mismatch;
  // A parameter that is not what it was before, on the host; empty: none.
  std::string changed;
};

struct TestSamples {
  std::uint64_t first = 0, count = 0;
};

// Computes micro-batch 0 of step 0 twice, and evaluates `tests` in between. The state must not change;
// `gradient` (gradient_floats() floats) is overwritten. Errors: those of Task::train() and Task::evaluate().
Result<NumericCheck> check_numerics(Task& task, std::span<float> gradient, const std::atomic<bool>& aborted,
                                    const TestSamples& tests = {});

}  // namespace rekindle::trainer
