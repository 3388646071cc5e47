// A state dict as torch.save writes it. Internal to checkpoint/.
#pragma once

#include "base/file_path.hpp"

#include "base/result.hpp"
#include "checkpoint/state.hpp"

namespace rekindle::checkpoint {

// Writes `state` durably under `path`; removes it on failure. torch.load(path, weights_only=True) reads it,
// since PyTorch 1.6.
Status write_torch(const FilePath& path, const State& state);

}  // namespace rekindle::checkpoint
