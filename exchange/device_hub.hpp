// A hub whose gradient slots are memory of a device, and whose exchanges move gradients with NCCL. Headers,
// state copies and the meeting of the members go through an exchange on the host, which also finds dead
// members by name.
//
// On one device, every operation is on one stream: the gradients that a task computes into the slots, the
// exchange, and the update that reads the sums.
#pragma once

#include <memory>
#include <string>

#include "device/device.hpp"
#include "exchange/exchange.hpp"
#include "exchange/nccl_link.hpp"

namespace rekindle::exchange {

class DeviceHub : public Hub {
 public:
  virtual device::Stream& stream() = 0;
};

// `device` lives longer. The other arguments are those of Hub::open().
Result<std::unique_ptr<DeviceHub>> open_device_hub(device::Device& device, const NcclApi& api,
                                                   std::size_t floats, const std::string& address,
                                                   PortRange ports = {}, NcclLimits limits = {});

}  // namespace rekindle::exchange
