// How far the work on a stream has come. Internal to the module.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "device/device.hpp"

namespace rekindle::exchange {

// Points on a stream, in order. One more of them that is over is progress.
class Milestones {
 public:
  Status add(const device::Place& place) {
    if (used_ == events_.size()) {
      REKINDLE_TRY(events_.emplace_back(), place.device->make_event());
    }
    place.device->record(*place.stream, *events_[used_++]);
    return {};
  }
  // Whether all are over. `passed` grows by those that are over now, and were not at the last call.
  Result<bool> are_over(device::Device& device, std::atomic<std::uint64_t>& passed) {
    for (; over_ < used_; ++over_, ++passed) {
      REKINDLE_TRY(const bool is_over, device.is_over(*events_[over_]));
      if (!is_over) return false;
    }
    used_ = over_ = 0;
    return true;
  }

 private:
  std::vector<std::unique_ptr<device::Event>> events_;
  std::size_t used_ = 0, over_ = 0;  // 0 <= over_ <= used_ <= events_.size()
};

}  // namespace rekindle::exchange
