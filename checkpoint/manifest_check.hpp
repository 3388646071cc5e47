// What the fields of a manifest must say together, whoever wrote it. Internal to checkpoint/.
#pragma once

#include "checkpoint/checkpoint.hpp"

namespace rekindle::checkpoint {

// A name and a shape that a tensor can have, whoever made them up.
Status check_tensor(const TensorSpec& tensor);
// Nothing in a manifest that passes can make a reader leave a file or a tensor, or fill a byte twice or
// never.
Status check_manifest(const Manifest& manifest);

}  // namespace rekindle::checkpoint
