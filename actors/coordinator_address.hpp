// Where a coordinator listens.
#pragma once

#include <cstdint>
#include <string>

#include "actors/coordinator.hpp"
#include "actors/interfaces.hpp"
#include "base/network.hpp"

namespace rekindle::actors {

// Chooses an address and a port, and listens there with the pair of load_keys(). Workers read both from
// coordinator.json.
Result<Interface> publish(const CoordinatorOptions& options, std::uint64_t term,
                          const CoordinatorActor& actor);

// Whether the interface that was chosen for `wanted` has another address now, and not that one any more.
// False if it has none: with its own one it comes back, and keeps its connections.
bool has_another_address(const Interface& chosen, const std::string& wanted);

}  // namespace rekindle::actors
