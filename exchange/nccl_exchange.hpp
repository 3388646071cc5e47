// The exchange among trainers with a device each. Internal to the module.
#pragma once

#include <memory>
#include <vector>

#include "device/device.hpp"
#include "exchange/exchange.hpp"
#include "exchange/nccl_link.hpp"

namespace rekindle::exchange {

// What a hub and its exchanges share.
struct DeviceParts {
  device::Device& device;
  NcclApi api;
  NcclLimits limits;
  std::size_t floats = 0;
  std::unique_ptr<device::Stream> stream;
  std::vector<device::Memory> slots = {};
  // Communicators of generations that have ended. They are freed when the next generation has met: its
  // members have paused by then, and no kernel of theirs reads this rank's memory any more.
  std::vector<std::unique_ptr<NcclLink>> retired = {};

  Result<std::span<float>> slot(int i);
};

// `host`: an exchange of the same plan on the host.
std::unique_ptr<Exchange> make_nccl_exchange(DeviceParts& parts, std::unique_ptr<Exchange> host,
                                             const Plan& plan);

}  // namespace rekindle::exchange
