// Shows early that a process dies: the kernel releases the lifeline before it frees the process's memory. For
// a large process under load, freeing takes half a second, and only then does the pidfd become readable.
#pragma once

#include <chrono>

#include "base/files.hpp"
#include "base/result.hpp"

namespace rekindle {

// A robust mutex in memory that two processes share.
class Lifeline {
 public:
  static Result<Lifeline> make();
  // The same lifeline, in the process that got `fd` from spawn().
  static Result<Lifeline> take(Fd fd);
  ~Lifeline();
  Lifeline(Lifeline&& other) noexcept;
  Lifeline& operator=(Lifeline&&) = delete;

  int fd() const { return fd_.get(); }
  // Called by the watched process, from a thread that lives as long as the process.
  Status hold();
  // Called by the watching process, after the other process has reported that it holds the lifeline. True
  // when that process is dying, false after `limit`. May miss a death: if the kernel is out of memory, it may
  // free the process's memory first, including the mark in it.
  bool wait_until_cut(std::chrono::milliseconds limit);

 private:
  struct Shared;
  Lifeline(Fd fd, Shared* shared) : fd_(std::move(fd)), shared_(shared) {}
  static Result<Lifeline> map(Fd fd);

  Fd fd_;
  Shared* shared_ = nullptr;
};

}  // namespace rekindle
