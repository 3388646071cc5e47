// Virtual time: one queue of events, ordered by (time, order of arrival), and one seeded random generator.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/random.hpp"

namespace rekindle::sim {

using Ms = std::int64_t;

class Engine {
 public:
  explicit Engine(std::uint64_t seed) : rng_(mix64(seed + 0x5349)) {}

  Ms now() const { return now_; }
  std::uint64_t events() const { return events_; }

  void at(Ms when, std::function<void()> what) {
    queue_.push_back({std::max(when, now_), order_++, std::move(what)});
    std::push_heap(queue_.begin(), queue_.end(), later);
  }
  void after(Ms delay, std::function<void()> what) { at(now_ + delay, std::move(what)); }

  // False if the queue is empty, so that no event can follow.
  bool run_one() {
    if (queue_.empty()) return false;
    std::pop_heap(queue_.begin(), queue_.end(), later);
    Entry entry = std::move(queue_.back());
    queue_.pop_back();
    now_ = entry.when;
    ++events_;
    entry.what();
    return true;
  }

  void forget_all() { queue_.clear(); }  // only for the test of the deadlock check

  std::uint64_t below(std::uint64_t n) { return rng_.below(n); }
  Ms between(Ms low, Ms high) {
    return low + static_cast<Ms>(rng_.below(static_cast<std::uint64_t>(high - low + 1)));
  }
  bool chance(double probability) { return static_cast<double>(rng_.unit()) < probability; }

 private:
  struct Entry {
    Ms when = 0;
    std::uint64_t order = 0;
    std::function<void()> what;
  };
  static bool later(const Entry& a, const Entry& b) {
    return std::pair(a.when, a.order) > std::pair(b.when, b.order);
  }

  std::vector<Entry> queue_;
  Ms now_ = 0;
  std::uint64_t order_ = 0, events_ = 0;
  Rng rng_;
};

}  // namespace rekindle::sim
