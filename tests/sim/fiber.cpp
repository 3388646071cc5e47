#include "fiber.hpp"

#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace rekindle::sim {

namespace {

constexpr std::size_t kStackBytes = std::size_t{256} << 10;

// Stacks are reused, because their pages are already mapped.
thread_local std::vector<std::unique_ptr<std::byte[]>> spare_stacks;

std::unique_ptr<std::byte[]> take_stack() {
  if (spare_stacks.empty()) return std::unique_ptr<std::byte[]>(new std::byte[kStackBytes]);
  std::unique_ptr<std::byte[]> stack = std::move(spare_stacks.back());
  spare_stacks.pop_back();
  return stack;
}

}  // namespace

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)), stack_(take_stack()) {
  ::getcontext(&here_);
  here_.uc_stack.ss_sp = stack_.get();
  here_.uc_stack.ss_size = kStackBytes;
  here_.uc_link = nullptr;
  // makecontext() passes ints.
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  ::makecontext(&here_, reinterpret_cast<void (*)()>(&Fiber::enter), 2, static_cast<unsigned>(self >> 32),
                static_cast<unsigned>(self));
#if defined(__SANITIZE_THREAD__)
  thread_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
  if (running_) std::terminate();
  if (started_ && !done_) {
    ends_ = true;
    resume();
  }
  spare_stacks.push_back(std::move(stack_));
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(thread_);
#endif
}

void Fiber::resume() {
  if (done_ || running_) std::terminate();
  started_ = running_ = true;
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, stack_.get(), kStackBytes);
#endif
#if defined(__SANITIZE_THREAD__)
  caller_thread_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(thread_, 0);
#endif
  ::swapcontext(&caller_, &here_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

void Fiber::suspend() {
  running_ = false;
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, caller_stack_, caller_size_);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(caller_thread_, 0);
#endif
  ::swapcontext(&here_, &caller_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake, &caller_stack_, &caller_size_);
#endif
  if (ends_) throw Ended{};
}

void Fiber::enter(unsigned high, unsigned low) {
  const auto address = (static_cast<std::uintptr_t>(high) << 32) | low;
  auto* const self = reinterpret_cast<Fiber*>(address);  // NOLINT(performance-no-int-to-ptr)
  self->run();
}

void Fiber::run() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &caller_stack_, &caller_size_);
#endif
  try {
    body_();
  } catch (const Ended&) {
  }
  done_ = true;
  running_ = false;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(nullptr, caller_stack_, caller_size_);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(caller_thread_, 0);
#endif
  ::setcontext(&caller_);
}

}  // namespace rekindle::sim
