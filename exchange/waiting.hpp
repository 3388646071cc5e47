// Whom a call is waiting for, for other threads to ask.
#pragma once

#include <atomic>

namespace rekindle::exchange {

class WaitingFor {
 public:
  int rank() const noexcept { return rank_.load(std::memory_order_relaxed); }

  // Runs `wait`, which waits for `rank`.
  template <class Wait>
  auto during(int rank, Wait wait) {
    rank_.store(rank, std::memory_order_relaxed);
    auto result = wait();
    rank_.store(-1, std::memory_order_relaxed);
    return result;
  }

 private:
  std::atomic<int> rank_{-1};
};

}  // namespace rekindle::exchange
