#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "base/files.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/failure.hpp"
#include "checkpoint/names.hpp"

namespace rekindle::checkpoint {
namespace {

// Reads the shards of one checkpoint, whose sizes must be right.
class ShardReader {
 public:
  // Files of other nodes may be seen late: it waits for each up to `patience`.
  explicit ShardReader(fs::path checkpoint_dir, std::chrono::milliseconds patience = {})
      : directory_(std::move(checkpoint_dir)), patience_(patience) {}

  Status read(const ShardEntry& shard, std::uint64_t offset, std::span<std::byte> out) {
    if (&shard != open_) REKINDLE_CHECK(open(shard));
    return read_into(fd_.get(), path_, offset, out);
  }
  const fs::path& path() const { return path_; }  // of the shard that was read last

 private:
  Status open(const ShardEntry& shard) {
    open_ = nullptr;
    path_ = directory_ / shard.file;
    std::ignore = await_file(path_, patience_);
    auto opened = open_file(path_, O_RDONLY | O_NONBLOCK);  // nonblocking: it might be a pipe
    if (!opened) return forward_error(missing(std::move(opened.error())));
    fd_ = std::move(*opened);
    struct stat info {};
    if (::fstat(fd_.get(), &info) != 0) return forward_error(errno_error("cannot stat", path_));
    if (!S_ISREG(info.st_mode) || static_cast<std::uint64_t>(info.st_size) != shard.bytes) {
      return damaged(path_, str("it has ", info.st_size, " bytes, the manifest says ", shard.bytes));
    }
    ::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
    open_ = &shard;
    return {};
  }

  // Damage is only what is missing from a checkpoint that is there: else the storage is away.
  Error missing(Error error) const {
    std::error_code code;
    if (error.by_system || !fs::exists(directory_ / kManifestFile, code)) return error;
    return damaged_error(path_, "it is not there");
  }

  const fs::path directory_;
  const std::chrono::milliseconds patience_;
  fs::path path_;
  Fd fd_;
  const ShardEntry* open_ = nullptr;
};

// One chunk of the state, and where it lies.
struct StoredChunk {
  Slice slice;
  Hash128 hash;
  const ShardEntry* shard = nullptr;
  std::uint64_t offset = 0;  // in the shard
  std::size_t bytes = 0;
};

struct Place {
  const ShardEntry* shard = nullptr;
  const DatasetEntry* dataset = nullptr;
};

// Of each tensor's rows, in order. The manifest has been checked: they tile the tensors, on chunk borders.
std::unordered_map<std::string, std::vector<Place>> places_of(const Manifest& manifest) {
  std::unordered_map<std::string, std::vector<Place>> places;
  for (const ShardEntry& shard : manifest.shards) {
    for (const DatasetEntry& dataset : shard.datasets) places[dataset.name].push_back({&shard, &dataset});
  }
  for (auto& [name, of_tensor] : places)
    std::ranges::sort(of_tensor, {}, [](const Place& place) { return place.dataset->first_row; });
  return places;
}

// The chunks of one part, in canonical order.
std::vector<StoredChunk> stored_chunks(const Manifest& manifest, int parts, int part) {
  const auto& [tensors, hashes] = manifest.contents;
  const auto places = places_of(manifest);
  std::vector<StoredChunk> chunks;
  const std::vector<std::size_t> first_chunk = first_chunks(tensors);
  for (const Slice& slice : part_of(tensors, parts, part)) {
    const TensorSpec& spec = tensors[slice.tensor];
    const std::int64_t rows = rows_in_chunk(spec), end = slice.first_row + slice.rows;
    auto place = places.at(spec.name).begin();
    for (std::int64_t row = slice.first_row; row < end; row += rows) {
      while (place->dataset->first_row + place->dataset->rows <= row) ++place;
      const std::int64_t count = std::min(rows, end - row);
      const auto in_dataset = static_cast<std::uint64_t>(row - place->dataset->first_row);
      chunks.push_back({{slice.tensor, row, count},
                        hashes[first_chunk[slice.tensor] + static_cast<std::size_t>(row / rows)],
                        place->shard,
                        place->dataset->offset + in_dataset * spec.row_bytes(),
                        static_cast<std::size_t>(count) * spec.row_bytes()});
    }
  }
  return chunks;
}

Status read_chunk(ShardReader& reader, const Manifest& manifest, const StoredChunk& chunk,
                  std::span<std::byte> out) {
  REKINDLE_CHECK(reader.read(*chunk.shard, chunk.offset, out));
  if (hash128(out) == chunk.hash) return {};
  return damaged(reader.path(),
                 str("rows ", chunk.slice.first_row, " to ", chunk.slice.first_row + chunk.slice.rows - 1,
                     " of ", manifest.contents.tensors[chunk.slice.tensor].name, " (bytes ", chunk.offset,
                     " to ", chunk.offset + chunk.bytes - 1, ") do not match their checksum"));
}

// Everything in a shard that is in no dataset.
Status verify_frame(ShardReader& reader, const ShardEntry& shard) {
  std::array<std::byte, 65536> buffer;
  Hasher128 hasher;
  std::uint64_t begin = 0;
  const auto hash_until = [&](std::uint64_t end) -> Status {
    while (begin < end) {
      const auto bytes = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), end - begin));
      REKINDLE_CHECK(reader.read(shard, begin, bytes));
      hasher.update(bytes);
      begin += bytes.size();
    }
    return {};
  };
  for (const DatasetEntry& dataset : shard.datasets) {
    REKINDLE_CHECK(hash_until(dataset.offset));
    begin = dataset.offset + dataset.bytes;
  }
  REKINDLE_CHECK(hash_until(shard.bytes));
  if (hasher.digest() == shard.frame) return {};
  return damaged(reader.path(), "its headers do not match their checksum");
}

Status check_specs(const Manifest& manifest, const State& state) {
  const StateSpec& tensors = manifest.contents.tensors;
  if (state.size() != tensors.size()) {
    return fail(ExitCode::kConfig,
                str("the checkpoint has ", tensors.size(), " tensors, the model has ", state.size()),
                "restore with the model and optimizer that wrote it");
  }
  for (std::size_t i = 0; i < state.size(); ++i) {
    if (state[i].spec != tensors[i] || state[i].bytes.size() != state[i].spec.bytes()) {
      return fail(ExitCode::kConfig,
                  str("tensor ", state[i].spec.name, " differs from the checkpoint's ", tensors[i].name,
                      " in name, type, shape or role"),
                  "restore with the model and optimizer that wrote it");
    }
  }
  return {};
}

}  // namespace

Status read_part(const fs::path& checkpoint_dir, const Manifest& manifest, int parts, int part,
                 const State& state, std::chrono::milliseconds patience) {
  REKINDLE_CHECK(check_specs(manifest, state));
  ShardReader reader(checkpoint_dir, patience);
  for (const StoredChunk& chunk : stored_chunks(manifest, parts, part))
    REKINDLE_CHECK(read_chunk(reader, manifest, chunk, bytes_of(state, chunk.slice)));
  return {};
}

Status verify(const fs::path& checkpoint_dir, const Manifest& manifest) {
  ShardReader reader(checkpoint_dir);
  std::vector<std::byte> buffer;
  for (const StoredChunk& chunk : stored_chunks(manifest, 1, 0)) {
    buffer.resize(std::max(buffer.size(), chunk.bytes));
    REKINDLE_CHECK(read_chunk(reader, manifest, chunk, std::span(buffer).first(chunk.bytes)));
  }
  for (const ShardEntry& shard : manifest.shards) REKINDLE_CHECK(verify_frame(reader, shard));
  return {};
}

}  // namespace rekindle::checkpoint
