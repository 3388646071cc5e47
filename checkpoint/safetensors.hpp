// https://github.com/huggingface/safetensors#format. Internal to checkpoint/.
#pragma once

#include <filesystem>

#include "base/result.hpp"
#include "checkpoint/state.hpp"

namespace rekindle::checkpoint {

// Writes `state` durably under `path`; removes it on failure. Data are packed with the largest element size
// first (readers map tensors in place and need them aligned), else in order.
Status write_safetensors(const std::filesystem::path& path, const State& state);

}  // namespace rekindle::checkpoint
