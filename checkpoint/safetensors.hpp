// https://github.com/huggingface/safetensors#format. Internal to checkpoint/.
#pragma once

#include "checkpoint/state.hpp"

namespace rekindle::checkpoint {

const char* safetensors_name(Dtype dtype);  // "F32", ...

}  // namespace rekindle::checkpoint
