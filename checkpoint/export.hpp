// Files that other programs read.
#pragma once

#include "base/file_path.hpp"

#include "base/result.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/tensor_file.hpp"

namespace rekindle::checkpoint {

// A complete checkpoint in memory, verified.
struct LoadedState {
  Manifest manifest;
  std::vector<std::vector<std::byte>> storage;
  State state;
};
Result<LoadedState> load(const FilePath& checkpoint_dir);
// Some tensors of a checkpoint, verified. `chosen`: tensors of the manifest, under any role. Allocates no
// memory for the others.
Result<Tensors> load_tensors(const FilePath& checkpoint_dir, const Manifest& manifest,
                             const StateSpec& chosen);

// The tensors `chosen` of a checkpoint (as above). The caller reads each tensor in order, from the first byte
// to the last, once or more often. Reading the last byte of a chunk verifies the chunk; until then, the bytes
// read from the chunk may be damaged. `manifest` must outlive the source.
Result<TensorSource> source_of(const FilePath& checkpoint_dir, const Manifest& manifest,
                               const StateSpec& chosen);

// By extension: .safetensors, .h5 or .pt (a state dict for torch.load). Contains parameters and buffers under
// their state-dict keys; optimizer tensors ("momentum.<name>") only if `with_optimizer`. Replaces the file
// atomically. Another extension is a usage error. The checkpoint may be larger than memory.
Status export_file(const FilePath& checkpoint_dir, const FilePath& file, bool with_optimizer);

}  // namespace rekindle::checkpoint
