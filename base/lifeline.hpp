// A process's word that it lives, which the kernel takes back the moment it dies: before its memory is taken
// apart, which takes a large process under load half a second, and only after which its pidfd is readable.
#pragma once

#include <chrono>

#include "base/files.hpp"
#include "base/result.hpp"

namespace rekindle {

// A robust mutex in memory that two processes share.
class Lifeline {
 public:
  static Result<Lifeline> make();
  // The same one, in the process that got `fd` from spawn().
  static Result<Lifeline> take(Fd fd);
  ~Lifeline();
  Lifeline(Lifeline&& other) noexcept;
  Lifeline& operator=(Lifeline&&) = delete;

  int fd() const { return fd_.get(); }
  // By the one who is watched, from a thread that lives as long as the process.
  Status hold();
  // By the one who watches, once the other side has said that it holds: true when that one is dying, false
  // after `limit`. It may never come: a kernel that is out of memory frees the process's first, its mark too.
  bool wait_until_cut(std::chrono::milliseconds limit);

 private:
  struct Shared;
  Lifeline(Fd fd, Shared* shared) : fd_(std::move(fd)), shared_(shared) {}
  static Result<Lifeline> map(Fd fd);

  Fd fd_;
  Shared* shared_ = nullptr;
};

}  // namespace rekindle
