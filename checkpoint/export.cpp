#include "checkpoint/export.hpp"

#include <unistd.h>

#include <algorithm>

#include "base/files.hpp"
#include "base/text.hpp"
#include "checkpoint/block_file.hpp"
#include "checkpoint/layout.hpp"
#include "checkpoint/manifest_check.hpp"
#include "checkpoint/names.hpp"
#include "checkpoint/safetensors.hpp"
#include "checkpoint/tensor_file.hpp"
#include "checkpoint/torch_file.hpp"

namespace rekindle::checkpoint {
namespace {

// Whole tensors as datasets of the same layout as shards have.
Status write_h5(const FilePath& path, const State& state) {
  std::vector<LayoutDataset> datasets;
  for (const Tensor& tensor : state) {
    datasets.push_back({tensor.spec.name, tensor.spec.dtype, tensor.spec.shape, {}});
  }
  REKINDLE_TRY(const Layout layout, lay_out(datasets, {}));
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < state.size(); ++i) {
    if (!state[i].bytes.empty()) pieces.push_back({layout.offsets[i], state[i].bytes, {}, 0});
  }
  std::ranges::sort(pieces, {}, &Piece::offset);
  const Reading alone;
  ReadAhead ahead(layout, pieces, alone);
  return write_blocks(path, ahead);
}

}  // namespace

Result<LoadedState> load(const FilePath& checkpoint_dir) {
  LoadedState loaded;
  REKINDLE_TRY(loaded.manifest, read_manifest(checkpoint_dir));
  // Before memory is taken: what the manifest says is bounded by files that exist.
  REKINDLE_CHECK(check_files(checkpoint_dir, loaded.manifest));
  for (const TensorSpec& spec : loaded.manifest.contents.tensors) {
    auto& storage = loaded.storage.emplace_back(spec.bytes());
    loaded.state.push_back({spec, storage});
  }
  REKINDLE_CHECK(read_part(checkpoint_dir, loaded.manifest, 1, 0, loaded.state));
  return loaded;
}

Status check_writable_extension(const FilePath& file) {
  const std::string extension = file.extension().string();
  for (const char* known : {".safetensors", ".h5", ".pt"}) {
    if (extension == known) return {};
  }
  return fail(ExitCode::kUsage, str("cannot export to ", file.string()),
              "the name must end in .safetensors, .h5 or .pt");
}

Status write_tensors(const FilePath& file, const State& state) {
  REKINDLE_CHECK(check_writable_extension(file));
  const std::string extension = file.extension().string();
  const FilePath temporary = temporary_beside(file);
  REKINDLE_CHECK(extension == ".h5"   ? write_h5(temporary, state)
                 : extension == ".pt" ? write_torch(temporary, state)
                                      : write_safetensors(temporary, state));
  Status renamed = rename_durably(temporary, file);
  if (!renamed) std::ignore = remove_file(temporary);
  return renamed;
}

Status export_file(const FilePath& checkpoint_dir, const FilePath& file, bool with_optimizer) {
  REKINDLE_CHECK(check_writable_extension(file));
  REKINDLE_TRY(const LoadedState loaded, load(checkpoint_dir));
  State state;
  for (const Tensor& tensor : loaded.state) {
    if (with_optimizer || tensor.spec.role != Role::kOptimizer) state.push_back(tensor);
  }
  return write_tensors(file, state);
}

}  // namespace rekindle::checkpoint
