// A state dict as torch.save writes it. Internal to checkpoint/.
#pragma once

#include "base/file_path.hpp"

#include "base/result.hpp"
#include "checkpoint/tensor_file.hpp"

namespace rekindle::checkpoint {

// Writes `source` durably under `path`; removes the file on failure. torch.load(path, weights_only=True)
// reads it, since PyTorch 1.6.
Status write_torch(const FilePath& path, const TensorSource& source);

}  // namespace rekindle::checkpoint
