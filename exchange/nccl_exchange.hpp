// The exchange among trainers with a device each. Internal to the module.
#pragma once

#include <memory>

#include "exchange/device_parts.hpp"
#include "exchange/exchange.hpp"

namespace rekindle::exchange {

// `host`: an exchange of the same plan on the host. A generation of one rank needs no NCCL.
std::unique_ptr<Exchange> make_nccl_exchange(DeviceParts& parts, std::unique_ptr<Exchange> host,
                                             const Plan& plan);

}  // namespace rekindle::exchange
