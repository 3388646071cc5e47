// Whether a checkpoint can have the tensors of a state, before the first one is written.
#pragma once

#include "base/result.hpp"
#include "checkpoint/state.hpp"

namespace rekindle::checkpoint {

// Errors (ExitCode::kConfig): a name or shape that no checkpoint can have; a name of two tensors.
Status check_spec(const StateSpec& tensors);

}  // namespace rekindle::checkpoint
