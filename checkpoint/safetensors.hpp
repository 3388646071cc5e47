// https://github.com/huggingface/safetensors#format. Internal to checkpoint/.
#pragma once

#include "checkpoint/state.hpp"

namespace rekindle::checkpoint {

const char* safetensors_name(Dtype dtype);  // "F32", ...
// The one entry of the header that is no tensor: a map of strings.
inline constexpr const char* kMetadata = "__metadata__";

}  // namespace rekindle::checkpoint
