// The exchange among trainers of one host: everybody reads the others' memory in place.
#pragma once

#include <memory>

#include "exchange/local_memory.hpp"

namespace rekindle::exchange {

std::unique_ptr<Exchange> make_shm_exchange(LocalMemory& memory, const Plan& plan);

}  // namespace rekindle::exchange
