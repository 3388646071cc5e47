// What a hub on a device and its exchanges share. Internal to the module.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "device/device.hpp"
#include "exchange/nccl_link.hpp"

namespace rekindle::exchange {

// A communicator of a generation that has ended. Its kernels may write to this memory until it is freed.
struct RetiredLink {
  device::Memory sums, windows;
  bool was_waited_for = false;
  std::unique_ptr<NcclLink> link;  // last, so that it goes first
};

struct DeviceParts {
  device::Place place;
  std::optional<NcclApi> nccl;
  NcclLimits limits;
  std::size_t floats = 0;
  std::vector<device::Memory> slots = {};
  // They are ended and freed when the next generation has met: its members have paused by then, and no kernel
  // of theirs reads this rank's memory any more. One that waits for another process is freed later.
  std::vector<RetiredLink> retired = {};

  Result<std::span<float>> slot(int i);
  // Waits for `limits.end` at most, once for each, and only until `aborted()` says so.
  void free_retired(const std::function<bool()>& aborted);
};

}  // namespace rekindle::exchange
