// Consistency checks of a manifest from any source. Internal to checkpoint/.
#pragma once

#include "checkpoint/checkpoint.hpp"

namespace rekindle::checkpoint {

// Checks that a tensor can have this name and this shape. The values may come from any source.
Status check_tensor(const TensorSpec& tensor);
// If a manifest passes, no reader of it leaves a file or a tensor, and every byte of every tensor is filled
// exactly once.
Status check_manifest(const Manifest& manifest);

}  // namespace rekindle::checkpoint
