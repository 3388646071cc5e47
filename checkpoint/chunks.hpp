// The state divided into chunks of complete rows, each with its own hash. The borders depend only on the
// tensors' shapes, so one hash of a chunk serves the state digest and every file that contains the chunk.
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

// As many rows as fit into kChunkBytes, at least one. A tensor's last chunk may have fewer.
std::int64_t rows_in_chunk(const TensorSpec& tensor);
std::uint64_t chunks_in(const TensorSpec& tensor);  // 0 if the tensor has no elements
std::uint64_t chunks_in(const StateSpec& spec);

std::vector<Slice> chunks_of(const StateSpec& spec);           // one slice for each chunk
std::vector<std::size_t> first_chunks(const StateSpec& spec);  // by tensor: the index of its first chunk

// Part `part` of `parts`: complete chunks, in canonical order, of nearly equal bytes.
std::vector<Slice> part_of(const StateSpec& spec, int parts, int part);

std::span<std::byte> bytes_of(const State& state, const Slice& slice);

// XXH3-128 of each chunk, in canonical order.
using ChunkHashes = std::vector<Hash128>;
ChunkHashes hash_chunks(const State& state);

// XXH3-128 over the step (u64) and, for each tensor in order: name length (u64), name, dtype name length
// (u64), dtype name, number of dimensions (u64), dimensions (i64 each), and the hash of each of its chunks
// (16 bytes, most significant first). The numbers are little-endian. Trainers, attempts and files have no
// influence. `chunks` has chunks_in(spec) elements.
Hash128 state_digest(std::uint64_t step, const StateSpec& spec, const ChunkHashes& chunks);
Hash128 state_digest(std::uint64_t step, const State& state);

}  // namespace rekindle::checkpoint
