// The exchange among trainers of one host: every rank reads the peers' memory in place.
#pragma once

#include <memory>

#include "exchange/local_memory.hpp"

namespace rekindle::exchange {

std::unique_ptr<Exchange> make_shm_exchange(LocalMemory& memory, const Plan& plan);

}  // namespace rekindle::exchange
