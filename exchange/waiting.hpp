// Which rank a call is waiting for, and whether it makes progress. Other threads read this.
#pragma once

#include <atomic>
#include <cstdint>

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

  // Called when bytes have moved.
  void moved() noexcept { moved_.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t activity() const noexcept { return moved_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int> rank_{-1};
  std::atomic<std::uint64_t> moved_{0};
};

}  // namespace rekindle::exchange
