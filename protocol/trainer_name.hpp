// The name of a trainer is "WORKER.SLOT-N": the N-th trainer that its worker has started.
#pragma once

#include <string>

namespace rekindle::protocol {

// "WORKER.SLOT": the same for all trainers that take each other's place.
inline std::string slot_of(const std::string& trainer) { return trainer.substr(0, trainer.rfind('-')); }

}  // namespace rekindle::protocol
