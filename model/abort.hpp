// Internal to the module: ends a computation of LibTorch between two operators.
#pragma once

#include <atomic>
#include <exception>

namespace rekindle::model {

// What an operator throws in place of its work. Not derived from std::exception: a model that catches errors
// does not catch this one by accident.
struct Aborted {};
// In a backward pass: autograd's engine tidies up after a std::exception only. After sixty others it would
// compute each backward pass of this thread on another one.
struct AbortedInBackward : std::exception {
  const char* what() const noexcept override { return "the micro-batch was abandoned"; }
};

// While an object lives, each operator that this thread calls throws one of them if `aborted` is set:
// forward, backward and in a model's own code. It changes no bits. Objects do not nest. On a GPU, where a
// thread only starts operators and the look costs more than it gains, only throw_if_aborted() looks.
class AbortGuard {
 public:
  AbortGuard(const std::atomic<bool>& aborted, bool each_operator);
  ~AbortGuard();
  AbortGuard(const AbortGuard&) = delete;
  AbortGuard& operator=(const AbortGuard&) = delete;
};

// For places that every computation passes often.
void throw_if_aborted();

}  // namespace rekindle::model
