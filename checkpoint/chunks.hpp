// The state cut into chunks of whole rows, each with a hash of its own. The cuts depend on the tensors'
// shapes alone, so one hash of a chunk serves the state digest and every file that the chunk is in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/hash.hpp"
#include "checkpoint/state.hpp"

namespace rekindle::checkpoint {

inline constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

// A run of rows of one tensor.
struct Slice {
  std::size_t tensor = 0;  // index in the StateSpec
  std::int64_t first_row = 0, rows = 0;
  friend bool operator==(const Slice&, const Slice&) = default;
};

// As many as fit into kChunkBytes, one at least; a tensor's last chunk may have fewer.
std::int64_t rows_in_chunk(const TensorSpec& tensor);
std::uint64_t chunks_in(const TensorSpec& tensor);  // none without elements
std::uint64_t chunks_in(const StateSpec& spec);

std::vector<Slice> chunks_of(const StateSpec& spec);           // one each
std::vector<std::size_t> first_chunks(const StateSpec& spec);  // of each tensor, its place among all

// Part `part` of `parts`: whole chunks, in canonical order, of nearly equal bytes.
std::vector<Slice> part_of(const StateSpec& spec, int parts, int part);

std::span<std::byte> bytes_of(const State& state, const Slice& slice);

// XXH3-128 of each chunk, in canonical order.
using ChunkHashes = std::vector<Hash128>;
ChunkHashes hash_chunks(const State& state);

// XXH3-128 over the step (u64) and, for each tensor in order: name length (u64), name, dtype name length
// (u64), dtype name, number of dimensions (u64), dimensions (i64 each), and the hash of each of its chunks
// (16 bytes, most significant first). The numbers are little-endian. Nothing of trainers, attempts or files.
// `chunks`: chunks_in(spec) of them.
Hash128 state_digest(std::uint64_t step, const StateSpec& spec, const ChunkHashes& chunks);
Hash128 state_digest(std::uint64_t step, const State& state);

}  // namespace rekindle::checkpoint
