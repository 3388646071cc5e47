// One HDF5 file that shows a checkpoint's whole tensors, wherever their rows lie. For people's tools alone:
// nothing restores through it. Internal to checkpoint/.
#pragma once

#include "checkpoint/checkpoint.hpp"

namespace rekindle::checkpoint {

// Writes it beside the shards, which it names without their directory: a checkpoint may be moved. Not
// fsynced, for nobody depends on it. Leaves nothing on failure.
Status write_virtual_file(const FilePath& checkpoint_dir, const Manifest& manifest);

}  // namespace rekindle::checkpoint
