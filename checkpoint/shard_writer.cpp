#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/files.hpp"
#include "base/text.hpp"
#include "checkpoint/block_file.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/layout.hpp"
#include "checkpoint/names.hpp"

namespace rekindle::checkpoint {
namespace {

constexpr std::int64_t kFormatVersion = 1;

LayoutDataset dataset_of(const TensorSpec& tensor, const Slice& slice) {
  LayoutDataset dataset{tensor.name, tensor.dtype, tensor.shape, {}};
  if (!dataset.shape.empty()) dataset.shape[0] = slice.rows;
  dataset.attributes.push_back({"first_row", {slice.first_row}, true});
  dataset.attributes.push_back({"global_shape", tensor.shape, false});
  return dataset;
}

Status check_state(const State& state) {
  for (const Tensor& tensor : state) {
    REKINDLE_CHECK(check_tensor_name(tensor.spec.name));
    if (tensor.bytes.size() != tensor.spec.bytes()) {
      return fail(str("tensor ", tensor.spec.name, " has ", tensor.bytes.size(), " bytes, its shape says ",
                      tensor.spec.bytes()));
    }
  }
  return {};
}

// Makes RUN_DIR/checkpoints/ID/ and makes it durable, whoever of the writers created it.
Result<fs::path> prepare_directory(const fs::path& run_dir, const CheckpointId& id) {
  const fs::path directory = directory_of(run_dir, id);
  REKINDLE_CHECK(make_directories(directory));
  REKINDLE_CHECK(sync_directory(run_dir));
  REKINDLE_CHECK(sync_directory(checkpoints_of(run_dir)));
  const fs::path manifest = directory / kManifestFile;
  if (::access(manifest.c_str(), F_OK) == 0) {
    return fail(str(directory.string(), " is committed already"), "checkpoint names are never reused");
  }
  if (errno != ENOENT) return forward_error(errno_error("cannot look for", manifest));
  return directory;
}

}  // namespace

Result<ShardEntry> write_shard(const fs::path& run_dir, const CheckpointId& id, const State& state,
                               int shards, int shard, const std::function<void()>& all_read) {
  REKINDLE_CHECK(check_state(state));
  const StateSpec spec = spec_of(state);
  const std::vector<Slice> slices = shard_slices(spec, shards, shard);
  std::vector<LayoutDataset> datasets;
  for (const Slice& slice : slices) datasets.push_back(dataset_of(spec[slice.tensor], slice));
  REKINDLE_TRY(const Layout layout,
               lay_out(datasets, {{"rekindle_format", {kFormatVersion}, true},
                                  {"shard", {shard}, true},
                                  {"shards", {shards}, true},
                                  {"step", {static_cast<std::int64_t>(id.step)}, true}}));

  ShardEntry entry;
  entry.file = shard_file_name(static_cast<std::size_t>(shards), static_cast<std::size_t>(shard));
  entry.bytes = layout.bytes;
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const Slice& slice = slices[i];
    const std::uint64_t row = spec[slice.tensor].row_bytes();
    const std::uint64_t bytes = row * static_cast<std::uint64_t>(slice.rows);
    const std::uint64_t from = row * static_cast<std::uint64_t>(slice.first_row);
    entry.datasets.push_back(
        {spec[slice.tensor].name, slice.first_row, slice.rows, layout.offsets[i], bytes});
    pieces.push_back({layout.offsets[i], state[slice.tensor].bytes.subspan(from, bytes)});
  }
  // libhdf5 packs small datasets into gaps, so file order need not be canonical order.
  std::ranges::sort(pieces, {}, &Piece::offset);
  std::ranges::sort(entry.datasets, {}, &DatasetEntry::offset);

  // First: storage may take its time over the directory.
  ReadAhead ahead(layout, pieces, all_read);
  REKINDLE_TRY(const fs::path directory, prepare_directory(run_dir, id));
  const fs::path final_name = directory / entry.file;
  const fs::path temporary = temporary_name(final_name);
  REKINDLE_TRY(entry.block_hashes, write_blocks(temporary, ahead));
  if (Status renamed = rename_durably(temporary, final_name); !renamed) {
    ::unlink(temporary.c_str());
    ::unlink(final_name.c_str());  // the rename itself may have worked
    return forward_error(std::move(renamed.error()));
  }
  return entry;
}

}  // namespace rekindle::checkpoint
