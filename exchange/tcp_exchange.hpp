// The exchange over tcp, between any hosts.
#pragma once

#include <memory>

#include "exchange/local_memory.hpp"
#include "exchange/meeting.hpp"

namespace rekindle::exchange {

std::unique_ptr<Exchange> make_tcp_exchange(LocalMemory& memory, Acceptor& acceptor, const Plan& plan);

}  // namespace rekindle::exchange
