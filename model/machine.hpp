// What a person needs to know of a machine that computes other bits.
#pragma once

#include <string>

#include "base/result.hpp"

namespace rekindle::model {

// Refuses a loaded LibTorch (ExitCode::kConfig) of another version than that which this program was built
// with.
Status check_torch();

// Its processor and its libraries' versions, in one line. `gpu`: the name of the trainer's GPU, or empty.
std::string describe_machine(const std::string& gpu);

}  // namespace rekindle::model
