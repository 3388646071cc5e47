#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "base/text.hpp"
#include "checkpoint/block_queue.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/export.hpp"
#include "checkpoint/failure.hpp"
#include "checkpoint/shard_reader.hpp"

namespace rekindle::checkpoint {
namespace {

// One chunk of the state, and its place on storage.
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

// For each tensor, the places of its rows, in order. The manifest has been checked: the places cover the
// tensors exactly once, and their borders are chunk borders.
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

Status check_chunk(const ShardReader& reader, const Manifest& manifest, const StoredChunk& chunk,
                   const Hash128& hash) {
  if (hash == chunk.hash) return {};
  return damaged(reader.path_of(*chunk.shard),
                 str("rows ", chunk.slice.first_row, " to ", chunk.slice.first_row + chunk.slice.rows - 1,
                     " of ", manifest.contents.tensors[chunk.slice.tensor].name, " (bytes ", chunk.offset,
                     " to ", chunk.offset + chunk.bytes - 1, ") do not match their checksum"));
}

// A block of a shard that contains bytes of a wanted chunk.
struct WantedBlock {
  const ShardEntry* shard = nullptr;
  std::uint64_t begin = 0;
  std::size_t size = 0;
};

// In file order. `chunks` must be in file order, too.
std::vector<WantedBlock> blocks_of(const std::vector<StoredChunk>& chunks) {
  std::vector<WantedBlock> blocks;
  for (const StoredChunk& chunk : chunks) {
    std::uint64_t begin = chunk.offset / kBlockBytes * kBlockBytes;
    for (; begin < chunk.offset + chunk.bytes; begin += kBlockBytes) {
      if (!blocks.empty() && blocks.back().shard == chunk.shard && blocks.back().begin >= begin) continue;
      blocks.push_back(
          {chunk.shard, begin, std::min<std::uint64_t>(kBlockBytes, chunk.shard->bytes - begin)});
    }
  }
  return blocks;
}

void read_blocks(ShardReader& reader, const std::vector<WantedBlock>& blocks, BlockQueue& queue) {
  for (const auto& [shard, begin, size] : blocks) {
    auto buffer = queue.take();
    if (!buffer) return;
    const std::span<std::byte> room = buffer->bytes().first(size);
    if (auto status = reader.read_block(*shard, begin, room); !status)
      return queue.fail_with(std::move(status.error()));
    queue.put({begin, room, std::move(buffer)});
  }
}

// The use of the chunks' bytes. Chunks come one after the other.
struct ChunkUse {
  // Takes the next bytes of `chunk`, which begin at its byte `at`.
  std::function<void(const StoredChunk& chunk, std::uint64_t at, std::span<const std::byte> bytes)> take;
  std::function<Hash128(const StoredChunk& chunk)> hash;  // of all bytes of a chunk, after they were taken
};

// Copies each chunk into a state, and hashes it there while it is in the processor's cache.
ChunkUse copies_to(const std::function<std::span<std::byte>(const StoredChunk&)>& place_of) {
  return {[place_of](const StoredChunk& chunk, std::uint64_t at, std::span<const std::byte> bytes) {
            std::ranges::copy(bytes, place_of(chunk).begin() + static_cast<std::ptrdiff_t>(at));
          },
          [place_of](const StoredChunk& chunk) { return hash128(place_of(chunk)); }};
}

// Reads chunks and verifies each.
Status read_chunks(ShardReader& reader, const Manifest& manifest, std::vector<StoredChunk> chunks,
                   const ChunkUse& use, const std::function<Status()>& each_block = {}) {
  std::ranges::sort(chunks, {},
                    [](const StoredChunk& chunk) { return std::pair(chunk.shard, chunk.offset); });
  const std::vector<WantedBlock> blocks = blocks_of(chunks);
  BlockStream ahead([&](BlockQueue& queue) { read_blocks(reader, blocks, queue); });
  auto chunk = chunks.begin();
  for (const WantedBlock& wanted : blocks) {
    if (each_block) REKINDLE_CHECK(each_block());
    REKINDLE_TRY(Block block, ahead.next());
    const std::uint64_t block_end = wanted.begin + wanted.size;
    while (chunk != chunks.end() && chunk->shard == wanted.shard && chunk->offset < block_end) {
      const std::uint64_t from = std::max(chunk->offset, wanted.begin);
      const std::uint64_t to = std::min(chunk->offset + chunk->bytes, block_end);
      use.take(*chunk, from - chunk->offset, block.bytes.subspan(from - wanted.begin, to - from));
      if (to < chunk->offset + chunk->bytes) break;  // the rest is in the next block
      REKINDLE_CHECK(check_chunk(reader, manifest, *chunk, use.hash(*chunk)));
      ++chunk;
    }
    ahead.recycle(std::move(block));
  }
  return {};
}

// Verifies all bytes of a shard outside of datasets.
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
  return damaged(reader.path_of(shard), "its headers do not match their checksum");
}

Status check_specs(const Manifest& manifest, const State& state) {
  const StateSpec& tensors = manifest.contents.tensors;
  if (state.size() != tensors.size())
    return fail(ExitCode::kConfig,
                str("the checkpoint has ", tensors.size(), " tensors, the model has ", state.size()),
                "restore with the model and optimizer that wrote it");
  for (std::size_t i = 0; i < state.size(); ++i) {
    if (state[i].spec != tensors[i] || state[i].bytes.size() != state[i].spec.bytes())
      return fail(ExitCode::kConfig,
                  str("tensor ", state[i].spec.name, " differs from the checkpoint's ", tensors[i].name,
                      " in name, type, shape or role"),
                  "restore with the model and optimizer that wrote it");
  }
  return {};
}

}  // namespace

Status read_part(const FilePath& checkpoint_dir, const Manifest& manifest, int parts, int part,
                 const State& state, std::chrono::milliseconds patience,
                 const std::function<Status()>& each_block) {
  REKINDLE_CHECK(check_specs(manifest, state));
  ShardReader reader(checkpoint_dir, patience);
  return read_chunks(reader, manifest, stored_chunks(manifest, parts, part),
                     copies_to([&state](const StoredChunk& chunk) { return bytes_of(state, chunk.slice); }),
                     each_block);
}

Result<Tensors> load_tensors(const FilePath& checkpoint_dir, const Manifest& manifest,
                             const StateSpec& chosen) {
  REKINDLE_CHECK(check_files(checkpoint_dir, manifest));
  const StateSpec& all = manifest.contents.tensors;
  const auto by_name = places_by_name(all);
  Tensors tensors;
  std::vector<std::optional<std::size_t>> places(all.size());  // by tensor of the manifest: index in `chosen`
  for (const TensorSpec& tensor : chosen) {
    places[by_name.at(tensor.name)] = tensors.state.size();
    tensors.add(tensor);
  }
  std::vector<StoredChunk> chunks = stored_chunks(manifest, 1, 0);
  std::erase_if(chunks, [&places](const StoredChunk& chunk) { return !places[chunk.slice.tensor]; });
  ShardReader reader(checkpoint_dir);
  REKINDLE_CHECK(read_chunks(reader, manifest, std::move(chunks), copies_to([&](const StoredChunk& chunk) {
                               Slice slice = chunk.slice;
                               slice.tensor = *places[slice.tensor];
                               return bytes_of(tensors.state, slice);
                             })));
  return tensors;
}

namespace {

// Reads tensors in order and verifies each chunk while reading.
class VerifyingReader {
 public:
  VerifyingReader(const FilePath& checkpoint_dir, const Manifest& manifest)
      : reader_(checkpoint_dir),
        manifest_(manifest),
        chunks_(stored_chunks(manifest, 1, 0)),
        first_chunks_(first_chunks(manifest.contents.tensors)) {}

  // `tensor`: the index in the manifest. `offset`: 0, or the end of the last call's range.
  Status read(std::size_t tensor, std::uint64_t offset, std::span<std::byte> out) {
    if (offset == 0) {
      chunk_ = first_chunks_[tensor];
      in_chunk_ = next_ = 0;
    }
    if (offset != next_) throw std::logic_error("a tensor of a checkpoint is read in order");
    while (!out.empty()) {
      const StoredChunk& chunk = chunks_[chunk_];
      const auto piece = out.first(std::min<std::uint64_t>(out.size(), chunk.bytes - in_chunk_));
      REKINDLE_CHECK(reader_.read(*chunk.shard, chunk.offset + in_chunk_, piece));
      if (in_chunk_ == 0) hasher_ = Hasher128();
      hasher_.update(piece);
      in_chunk_ += piece.size();
      next_ += piece.size();
      out = out.subspan(piece.size());
      if (in_chunk_ < chunk.bytes) continue;
      REKINDLE_CHECK(check_chunk(reader_, manifest_, chunk, hasher_.digest()));
      ++chunk_;
      in_chunk_ = 0;
    }
    return {};
  }

 private:
  ShardReader reader_;
  const Manifest& manifest_;
  const std::vector<StoredChunk> chunks_;        // in canonical order
  const std::vector<std::size_t> first_chunks_;  // by tensor: the index of its first chunk in chunks_
  std::size_t chunk_ = 0;                        // the current chunk
  std::uint64_t in_chunk_ = 0, next_ = 0;        // bytes read of the current chunk, and of the tensor
  Hasher128 hasher_;                             // of the bytes read of the current chunk
};

}  // namespace

Result<TensorSource> source_of(const FilePath& checkpoint_dir, const Manifest& manifest,
                               const StateSpec& chosen) {
  REKINDLE_CHECK(check_files(checkpoint_dir, manifest));
  const auto by_name = places_by_name(manifest.contents.tensors);
  std::vector<std::size_t> places;
  for (const TensorSpec& tensor : chosen) places.push_back(by_name.at(tensor.name));
  // Shared, because a std::function must be copyable.
  const auto reader = std::make_shared<VerifyingReader>(checkpoint_dir, manifest);
  return TensorSource{chosen,
                      [reader, places = std::move(places)](std::size_t tensor, std::uint64_t offset,
                                                           std::span<std::byte> out) -> Status {
                        return reader->read(places[tensor], offset, out);
                      }};
}

Status verify(const FilePath& checkpoint_dir, const Manifest& manifest) {
  ShardReader reader(checkpoint_dir);
  // Keep no data: one row of a tensor may be as large as the file, and a chunk has at least one row.
  Hasher128 hasher;
  const ChunkUse hashed = {[&hasher](const StoredChunk&, std::uint64_t at, std::span<const std::byte> bytes) {
                             if (at == 0) hasher = Hasher128();
                             hasher.update(bytes);
                           },
                           [&hasher](const StoredChunk&) { return hasher.digest(); }};
  REKINDLE_CHECK(read_chunks(reader, manifest, stored_chunks(manifest, 1, 0), hashed));
  for (const ShardEntry& shard : manifest.shards) REKINDLE_CHECK(verify_frame(reader, shard));
  return {};
}

}  // namespace rekindle::checkpoint
