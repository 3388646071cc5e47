// Files that other programs read.
#pragma once

#include "base/file_path.hpp"

#include "base/result.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/tensor_file.hpp"

namespace rekindle::checkpoint {

// A whole checkpoint in memory, verified.
struct LoadedState {
  Manifest manifest;
  std::vector<std::vector<std::byte>> storage;
  State state;
};
Result<LoadedState> load(const FilePath& checkpoint_dir);
// Some of its tensors, verified. `chosen`: tensors of the manifest, under any role. No memory is taken for
// the others.
Result<Tensors> load_tensors(const FilePath& checkpoint_dir, const Manifest& manifest,
                             const StateSpec& chosen);

// By extension: .safetensors, .h5 or .pt (a state dict for torch.load). Parameters and buffers under their
// state-dict keys, optimizer tensors
// ("momentum.<name>") only if asked. Replaced atomically. Another extension is a usage error.
Status export_file(const FilePath& checkpoint_dir, const FilePath& file, bool with_optimizer);

}  // namespace rekindle::checkpoint
