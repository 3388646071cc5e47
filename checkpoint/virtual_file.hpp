// One HDF5 file that shows a checkpoint's complete tensors, from all shards. Only for users' tools: a restore
// never uses it. Internal to checkpoint/.
#pragma once

#include "checkpoint/checkpoint.hpp"

namespace rekindle::checkpoint {

// Writes the file beside the shards. It names them without their directory, so a checkpoint may be moved. The
// file is not fsynced, because no restore depends on it. Leaves no file on failure.
Status write_virtual_file(const FilePath& checkpoint_dir, const Manifest& manifest);

}  // namespace rekindle::checkpoint
