// https://github.com/huggingface/safetensors#format. Internal to checkpoint/.
#pragma once

#include "checkpoint/state.hpp"

namespace rekindle::checkpoint {

const char* safetensors_name(Dtype dtype);  // "F32", ...
// The header's only entry that is not a tensor: a map of strings.
inline constexpr const char* kMetadata = "__metadata__";

}  // namespace rekindle::checkpoint
