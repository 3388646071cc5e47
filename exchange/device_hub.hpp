// A hub whose gradient slots are memory of a device. Between GPUs, NCCL moves the gradients. Where it cannot,
// the partial sums go through memory of the host ("staged"). Headers, state copies and the meeting of the
// members always go through an exchange on the host, which also finds dead members by name.
//
// On one device, every operation is on one stream: the gradients that a task computes into the slots, the
// exchange, and the update that reads the sums.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "device/device.hpp"
#include "exchange/exchange.hpp"
#include "exchange/nccl_link.hpp"

namespace rekindle::exchange {

struct DeviceHubOptions {
  device::Place place;          // lives longer
  std::optional<NcclApi> nccl;  // nullopt: every generation is staged
  NcclLimits limits = {};
};

// The other arguments are those of Hub::open(). Backend::kAuto of a plan is NCCL if all members can use it:
// one version of it, and a device each.
Result<std::unique_ptr<Hub>> open_device_hub(DeviceHubOptions options, std::size_t floats,
                                             const std::string& address, PortRange ports = {});

}  // namespace rekindle::exchange
