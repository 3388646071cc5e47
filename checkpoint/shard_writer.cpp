#include <algorithm>
#include <cerrno>
#include <stdexcept>

#include "base/files.hpp"
#include "base/text.hpp"
#include "checkpoint/block_file.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/failure.hpp"
#include "checkpoint/layout.hpp"
#include "checkpoint/manifest_text.hpp"
#include "checkpoint/names.hpp"

namespace rekindle::checkpoint {
namespace {

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
      return fail(str("tensor ", tensor.spec.name, " has ", tensor.bytes.size(), " bytes, its shape needs ",
                      tensor.spec.bytes()));
    }
  }
  return {};
}

// Creates RUN_DIR/checkpoints/ID/ and makes it durable, even if another writer created it. Does not create
// RUN_DIR: if RUN_DIR is missing, the storage is not mounted, and files below the mount point would be lost.
Result<FilePath> prepare_directory(const FilePath& run_dir, const CheckpointId& id) {
  const FilePath directory = directory_of(run_dir, id);
  REKINDLE_CHECK(make_directory(checkpoints_of(run_dir)));
  REKINDLE_CHECK(make_directory(directory));
  REKINDLE_CHECK(sync_directory(run_dir));
  REKINDLE_CHECK(sync_directory(checkpoints_of(run_dir)));
  const FilePath manifest = directory / kManifestFile;
  REKINDLE_TRY(const auto committed, look_at(manifest));
  if (committed)
    return fail(str(directory.string(), " is committed already"), "checkpoint names are never reused");
  return directory;
}

// The slices of a state as datasets of one file, with their bytes and expected hashes.
struct Content {
  std::vector<LayoutDataset> datasets;
  std::vector<Piece> pieces;  // without offsets
};

Content content_of(const State& state, const StateSpec& spec, const ChunkHashes& chunks,
                   const std::vector<Slice>& slices) {
  const std::vector<std::size_t> first_chunk = first_chunks(spec);
  Content content;
  for (const Slice& slice : slices) {
    const TensorSpec& tensor = spec[slice.tensor];
    const std::int64_t rows = rows_in_chunk(tensor);
    const std::size_t first = first_chunk[slice.tensor] + static_cast<std::size_t>(slice.first_row / rows);
    const auto size = static_cast<std::size_t>((slice.rows + rows - 1) / rows);
    content.datasets.push_back(dataset_of(tensor, slice));
    content.pieces.push_back({0, bytes_of(state, slice), std::span(chunks).subspan(first, size),
                              static_cast<std::size_t>(rows) * tensor.row_bytes()});
  }
  return content;
}

// Leaves no file under `final_name` on failure.
Status put_in_place(const FilePath& temporary, const FilePath& final_name, const Reading& reading) {
  Status status = rename_durably(temporary, final_name);
  if (status && reading.still_as_hashed && !reading.still_as_hashed())
    status = forward_error(changed_state_error());
  if (!status) {
    std::ignore = remove_file(temporary);
    std::ignore = remove_file(final_name);  // the rename itself may have succeeded
  }
  return status;
}

}  // namespace

Result<ShardEntry> write_shard(const FilePath& run_dir, const CheckpointId& id, const State& state,
                               const ChunkHashes& chunks, int shards, int shard, const Reading& reading) {
  REKINDLE_CHECK(check_state(state));
  const StateSpec spec = spec_of(state);
  if (chunks.size() != chunks_in(spec)) throw std::logic_error("the chunk hashes are of another state");
  const std::vector<Slice> slices = part_of(spec, shards, shard);
  auto [datasets, pieces] = content_of(state, spec, chunks, slices);
  REKINDLE_TRY(const Layout layout,
               lay_out(datasets, {{"rekindle_format", {static_cast<std::int64_t>(kFormatVersion)}, true},
                                  {"shard", {shard}, true},
                                  {"shards", {shards}, true},
                                  {"step", {static_cast<std::int64_t>(id.step)}, true}}));

  ShardEntry entry;
  entry.file = shard_file_name(static_cast<std::size_t>(shards), static_cast<std::size_t>(shard));
  entry.bytes = layout.bytes;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    pieces[i].offset = layout.offsets[i];
    if (reading.still_as_hashed) pieces[i].chunks = {};
    entry.datasets.push_back({spec[slices[i].tensor].name, slices[i].first_row, slices[i].rows,
                              layout.offsets[i], pieces[i].bytes.size()});
  }
  // libhdf5 packs small datasets into gaps, so file order may differ from canonical order.
  std::ranges::sort(pieces, {}, &Piece::offset);
  std::ranges::sort(entry.datasets, {}, &DatasetEntry::offset);

  // Start reading first, because storage may take long to create the directory.
  ReadAhead ahead(layout, pieces, reading);
  REKINDLE_TRY(const FilePath directory, prepare_directory(run_dir, id));
  const FilePath final_name = directory / entry.file;
  const FilePath temporary = temporary_beside(final_name);
  REKINDLE_CHECK(write_blocks(temporary, ahead, reading.block_written));
  entry.frame = ahead.frame();
  REKINDLE_CHECK(put_in_place(temporary, final_name, reading));
  return entry;
}

}  // namespace rekindle::checkpoint
