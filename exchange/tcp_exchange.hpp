// The exchange over tcp: works between any hosts.
#pragma once

#include <memory>

#include "exchange/local_memory.hpp"
#include "exchange/meeting.hpp"

namespace rekindle::exchange {

std::unique_ptr<Exchange> make_tcp_exchange(LocalMemory& memory, Door& door, const Plan& plan);

}  // namespace rekindle::exchange
