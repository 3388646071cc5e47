// The exchange of trainers with a device each, through memory of the host. Internal to the module.
#pragma once

#include <memory>

#include "exchange/device_parts.hpp"
#include "exchange/exchange.hpp"

namespace rekindle::exchange {

// `host`: the hub whose slots and exchange do the work; its plan is `plan`. Both arguments live longer.
std::unique_ptr<Exchange> make_staged_exchange(DeviceParts& parts, Hub& host, const Plan& plan);

}  // namespace rekindle::exchange
