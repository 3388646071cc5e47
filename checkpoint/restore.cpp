#include <algorithm>
#include <array>
#include <functional>
#include <optional>
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

Status check_chunk(const ShardReader& reader, const Manifest& manifest, const StoredChunk& chunk,
                   const Hash128& hash) {
  if (hash == chunk.hash) return {};
  return damaged(reader.path_of(*chunk.shard),
                 str("rows ", chunk.slice.first_row, " to ", chunk.slice.first_row + chunk.slice.rows - 1,
                     " of ", manifest.contents.tensors[chunk.slice.tensor].name, " (bytes ", chunk.offset,
                     " to ", chunk.offset + chunk.bytes - 1, ") do not match their checksum"));
}

// A block of a shard that holds bytes of a chunk that is wanted.
struct WantedBlock {
  const ShardEntry* shard = nullptr;
  std::uint64_t begin = 0;
  std::size_t size = 0;
};

// In order of the files; `chunks` are, too.
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

// What becomes of the bytes of chunks, which come one chunk after the other.
struct ChunkUse {
  // The next bytes of `chunk`, from its byte `at` on.
  std::function<void(const StoredChunk& chunk, std::uint64_t at, std::span<const std::byte> bytes)> take;
  std::function<Hash128(const StoredChunk& chunk)> hash;  // of all bytes of a chunk, once they were taken
};

// Copies each chunk to its place in a state, and hashes it there while it is in the processor's cache.
ChunkUse copies_to(const std::function<std::span<std::byte>(const StoredChunk&)>& place_of) {
  return {[place_of](const StoredChunk& chunk, std::uint64_t at, std::span<const std::byte> bytes) {
            std::ranges::copy(bytes, place_of(chunk).begin() + static_cast<std::ptrdiff_t>(at));
          },
          [place_of](const StoredChunk& chunk) { return hash128(place_of(chunk)); }};
}

// Reads chunks, and checks each.
Status read_chunks(ShardReader& reader, const Manifest& manifest, std::vector<StoredChunk> chunks,
                   const ChunkUse& use) {
  std::ranges::sort(chunks, {},
                    [](const StoredChunk& chunk) { return std::pair(chunk.shard, chunk.offset); });
  const std::vector<WantedBlock> blocks = blocks_of(chunks);
  BlockStream ahead([&](BlockQueue& queue) { read_blocks(reader, blocks, queue); });
  auto chunk = chunks.begin();
  for (const WantedBlock& wanted : blocks) {
    REKINDLE_TRY(Block block, ahead.next());
    const std::uint64_t block_end = wanted.begin + wanted.size;
    while (chunk != chunks.end() && chunk->shard == wanted.shard && chunk->offset < block_end) {
      const std::uint64_t from = std::max(chunk->offset, wanted.begin);
      const std::uint64_t to = std::min(chunk->offset + chunk->bytes, block_end);
      use.take(*chunk, from - chunk->offset, block.bytes.subspan(from - wanted.begin, to - from));
      if (to < chunk->offset + chunk->bytes) break;  // it goes on in the next block
      REKINDLE_CHECK(check_chunk(reader, manifest, *chunk, use.hash(*chunk)));
      ++chunk;
    }
    ahead.recycle(std::move(block));
  }
  return {};
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
  return damaged(reader.path_of(shard), "its headers do not match their checksum");
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

Status read_part(const FilePath& checkpoint_dir, const Manifest& manifest, int parts, int part,
                 const State& state, std::chrono::milliseconds patience) {
  REKINDLE_CHECK(check_specs(manifest, state));
  ShardReader reader(checkpoint_dir, patience);
  return read_chunks(reader, manifest, stored_chunks(manifest, parts, part),
                     copies_to([&state](const StoredChunk& chunk) { return bytes_of(state, chunk.slice); }));
}

Result<Tensors> load_tensors(const FilePath& checkpoint_dir, const Manifest& manifest,
                             const StateSpec& chosen) {
  REKINDLE_CHECK(check_files(checkpoint_dir, manifest));
  const StateSpec& all = manifest.contents.tensors;
  const auto by_name = places_by_name(all);
  Tensors tensors;
  std::vector<std::optional<std::size_t>> places(all.size());  // of each of the manifest's among `chosen`
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

Status verify(const FilePath& checkpoint_dir, const Manifest& manifest) {
  ShardReader reader(checkpoint_dir);
  // Nothing is kept: one row of a tensor, which is a chunk at least, may be as large as the file.
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
