// What a person needs to know of a machine that computes other bits.
#pragma once

#include <string>

#include "model/model.hpp"

namespace rekindle::model {

// Its processor and its libraries' versions, in one line.
std::string describe_machine(const ModelConfig& config);

}  // namespace rekindle::model
