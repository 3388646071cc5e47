#include "checkpoint/manifest_check.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "base/files.hpp"
#include "base/text.hpp"
#include "checkpoint/names.hpp"

namespace rekindle::checkpoint {
namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 62;  // of a tensor or a file
constexpr std::size_t kMaxDimensions = 32;                   // HDF5's limit

using TensorsByName = std::unordered_map<std::string, const TensorSpec*>;

}  // namespace

Status check_tensor(const TensorSpec& tensor) {
  REKINDLE_CHECK(check_tensor_name(tensor.name));
  if (tensor.shape.size() > kMaxDimensions)
    return fail(str("tensor ", tensor.name, " has too many dimensions"));
  // A zero dimension must not hide an overflow of the dimensions before it, so zeros count as 1.
  std::uint64_t bytes = bytes_of(tensor.dtype);
  for (const std::int64_t dimension : tensor.shape) {
    if (dimension < 0 || (dimension > 0 && bytes > kMaxBytes / static_cast<std::uint64_t>(dimension))) {
      return fail(str("tensor ", tensor.name, " has an impossible shape"));
    }
    bytes *= std::max<std::uint64_t>(1, static_cast<std::uint64_t>(dimension));
  }
  return {};
}

namespace {

Status check_dataset(const DatasetEntry& dataset, const TensorsByName& tensors, std::uint64_t free_from,
                     std::uint64_t file_bytes) {
  const auto tensor = tensors.find(dataset.name);
  if (tensor == tensors.end()) return fail(str("dataset ", dataset.name, " is of no tensor"));
  const TensorSpec& spec = *tensor->second;
  if (spec.bytes() == 0 || dataset.first_row < 0 || dataset.rows < 1 || dataset.first_row > spec.rows() ||
      dataset.rows > spec.rows() - dataset.first_row) {
    return fail(str("dataset ", dataset.name, " has rows that its tensor does not have"));
  }
  const std::int64_t rows = rows_in_chunk(spec), end = dataset.first_row + dataset.rows;
  if (dataset.first_row % rows != 0 || (end % rows != 0 && end != spec.rows()))
    return fail(str("dataset ", dataset.name, " begins or ends within a chunk"));
  if (dataset.bytes != spec.row_bytes() * static_cast<std::uint64_t>(dataset.rows)) {
    return fail(str("dataset ", dataset.name, " has a wrong number of bytes"));
  }
  if (dataset.offset < free_from || dataset.offset > file_bytes ||
      dataset.bytes > file_bytes - dataset.offset) {
    return fail(str("dataset ", dataset.name, " overlaps another dataset, or extends beyond its file"));
  }
  return {};
}

// the covered rows of each tensor: first row -> rows
using Cover = std::unordered_map<std::string, std::map<std::int64_t, std::int64_t>>;

Status check_shard(const ShardEntry& shard, const TensorsByName& tensors, Cover& cover) {
  if (shard.bytes == 0 || shard.bytes > kMaxBytes)
    return fail(str(shard.file, " has ", shard.bytes, " bytes"));
  std::set<std::string> names;
  std::uint64_t free_from = 0;
  for (const DatasetEntry& dataset : shard.datasets) {
    REKINDLE_CHECK(check_dataset(dataset, tensors, free_from, shard.bytes));
    if (!names.insert(dataset.name).second)
      return fail(str(shard.file, " has dataset ", dataset.name, " twice"));
    if (!cover[dataset.name].emplace(dataset.first_row, dataset.rows).second) {
      return fail(str("rows of tensor ", dataset.name, " are in two shards"));
    }
    free_from = dataset.offset + dataset.bytes;
  }
  return {};
}

Status check_tiling(const TensorSpec& tensor, const Cover& cover) {
  std::int64_t next = 0;
  if (const auto found = cover.find(tensor.name); found != cover.end()) {
    for (const auto& [first_row, rows] : found->second) {
      if (first_row != next) break;
      next += rows;
    }
    if (const auto& [first_row, rows] = *found->second.rbegin(); first_row + rows != next) next = -1;
  }
  if (tensor.bytes() > 0 && next != tensor.rows()) {
    return fail(str("the shards do not cover the rows of tensor ", tensor.name, " exactly once"));
  }
  return {};
}

}  // namespace

Status check_manifest(const Manifest& manifest) {
  TensorsByName tensors;
  for (const TensorSpec& tensor : manifest.contents.tensors) {
    REKINDLE_CHECK(check_tensor(tensor));
    if (!tensors.emplace(tensor.name, &tensor).second)
      return fail(str("tensor ", tensor.name, " is listed twice"));
  }
  if (manifest.contents.chunks.size() != chunks_in(manifest.contents.tensors))
    return fail("there are not as many chunk hashes as chunks");
  if (state_digest(manifest.id.step, manifest.contents.tensors, manifest.contents.chunks).hex() !=
      manifest.digest)
    return fail("the state digest does not match the chunk hashes");
  if (manifest.shards.empty()) return fail("no shards are listed");
  Cover cover;
  for (std::size_t i = 0; i < manifest.shards.size(); ++i) {
    // This also prevents paths: each shard has only one possible name.
    if (const std::string name = shard_file_name(manifest.shards.size(), i);
        manifest.shards[i].file != name) {
      return fail(str("shard ", name, " is not listed"));
    }
    REKINDLE_CHECK(check_shard(manifest.shards[i], tensors, cover));
  }
  for (const TensorSpec& tensor : manifest.contents.tensors) REKINDLE_CHECK(check_tiling(tensor, cover));
  return {};
}

Status check_files(const FilePath& checkpoint_dir, const Manifest& manifest) {
  for (const ShardEntry& shard : manifest.shards) {
    const FilePath path = checkpoint_dir / shard.file;
    const auto info = look_at(path).value_or(std::nullopt);
    if (!info || !S_ISREG(info->st_mode)) return fail(str(path.string(), " is missing"));
    if (static_cast<std::uint64_t>(info->st_size) != shard.bytes)
      return fail(str(path.string(), " has ", info->st_size, " bytes, the manifest has ", shard.bytes));
  }
  return {};
}

}  // namespace rekindle::checkpoint
