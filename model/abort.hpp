// Internal to the module: ends a computation of LibTorch between two operators.
#pragma once

#include <atomic>

namespace rekindle::model {

// What an operator throws in place of its work. Not derived from std::exception: a model that catches errors
// does not catch this one by accident.
struct Aborted {};

// While an object lives, each operator that this thread calls throws Aborted if `aborted` is set: forward,
// backward and in a model's own code. It changes no bits. Objects do not nest.
class AbortGuard {
 public:
  explicit AbortGuard(const std::atomic<bool>& aborted);
  ~AbortGuard();
  AbortGuard(const AbortGuard&) = delete;
  AbortGuard& operator=(const AbortGuard&) = delete;
};

}  // namespace rekindle::model
