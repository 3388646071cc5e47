// The exchange among trainers of one host: every rank reads the peers' memory in place. shm_generation.hpp
// has how the ranks meet and wait for each other, shm_copy.hpp the copies of state.
#pragma once

#include <memory>

#include "exchange/local_memory.hpp"

namespace rekindle::exchange {

std::unique_ptr<Exchange> make_shm_exchange(LocalMemory& memory, const Plan& plan);

}  // namespace rekindle::exchange
