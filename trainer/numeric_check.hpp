// The numeric handshake: computes one gradient twice, to see whether this machine is deterministic, and
// hashes it for the comparison with other machines. A fingerprint lists only known causes of different bits;
// a computed gradient also shows unknown ones.
#pragma once

#include <atomic>
#include <span>
#include <string>

#include "base/result.hpp"
#include "trainer/task.hpp"

namespace rekindle::trainer {

struct NumericCheck {
  std::string hash;  // hash of the gradient tensors and the loss
  // The first tensor with a mismatch between the two results, or "the loss"; empty: none.
  std::string mismatch;
  // A parameter that is not what it was before, on the host; empty: none.
  std::string changed;
};

// Computes micro-batch 0 of step 0 twice. The state must not change; `gradient` (gradient_floats() floats) is
// overwritten. Errors: those of Task::train().
Result<NumericCheck> check_numerics(Task& task, std::span<float> gradient, const std::atomic<bool>& aborted);

}  // namespace rekindle::trainer
