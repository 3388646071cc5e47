// What a hub on a device and its exchanges share. Internal to the module.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "device/device.hpp"
#include "exchange/nccl_link.hpp"

namespace rekindle::exchange {

struct DeviceParts {
  device::Place place;
  std::optional<NcclApi> nccl;
  NcclLimits limits;
  std::size_t floats = 0;
  std::vector<device::Memory> slots = {};
  // Communicators of generations that have ended. They are freed when the next generation has met: its
  // members have paused by then, and no kernel of theirs reads this rank's memory any more.
  std::vector<std::unique_ptr<NcclLink>> retired = {};

  Result<std::span<float>> slot(int i);
};

}  // namespace rekindle::exchange
