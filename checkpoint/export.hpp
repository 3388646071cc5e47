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

enum class ExportContents {
  kModel,  // parameters and buffers under their state-dict keys; those of the moving average if there is one
  kRawModel,    // the same without the moving average
  kWholeState,  // all tensors of the state under their own names ("momentum.<name>", "ema.<name>")
};

// Another name of a parameter or buffer, which the file contains too: tensors that a model shares between
// modules (tied weights) have several keys in its state dict, and the checkpoint has each once.
struct OtherName {
  std::string name, of;
};
// From "other name, name, ...", as a run's identity has them.
std::vector<OtherName> other_names(const std::vector<std::string>& pairs);

// The tensors that an export contains, under their names in the file.
struct ExportSource {
  TensorSource source;
  bool averaged = false;  // these are the moving average's
};
// As source_of(). `manifest` must outlive the source. `others` has no effect on kWholeState.
Result<ExportSource> export_source(const FilePath& checkpoint_dir, const Manifest& manifest,
                                   ExportContents contents, const std::vector<OtherName>& others = {});

// By extension: .safetensors, .h5 or .pt (a state dict for torch.load). Replaces the file atomically. Returns
// the names in the file. Another extension is a usage error. The checkpoint may be larger than memory.
Result<StateSpec> export_file(const FilePath& checkpoint_dir, const FilePath& file, ExportContents contents,
                              const std::vector<OtherName>& others = {});

}  // namespace rekindle::checkpoint
