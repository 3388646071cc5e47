// A function with its own stack that can suspend itself inside a call. The step loop is written for a thread;
// fibers run it in virtual time, one trainer at a time. Source: makecontext(3).
#pragma once

#include <ucontext.h>

#include <functional>
#include <memory>

namespace rekindle::sim {

class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  ~Fiber();  // unwinds the stack if the fiber is suspended
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  void resume();  // returns when the fiber suspends itself or ends
  bool running() const { return running_; }

  void suspend();  // called inside the fiber; throws Ended if the fiber is destroyed meanwhile
  // Ends the fiber from inside. Only Fiber::run() catches this exception.
  struct Ended {};

 private:
  static void enter(unsigned high, unsigned low);
  void run();

  std::function<void()> body_;
  std::unique_ptr<std::byte[]> stack_;
  ucontext_t here_{}, caller_{};
  bool running_ = false, done_ = false, started_ = false, ends_ = false;
#if defined(__SANITIZE_ADDRESS__)
  const void* caller_stack_ = nullptr;
  std::size_t caller_size_ = 0;
#endif
#if defined(__SANITIZE_THREAD__)
  void *thread_ = nullptr, *caller_thread_ = nullptr;
#endif
};

}  // namespace rekindle::sim
