#include "checkpoint/chunks.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>

namespace rekindle::checkpoint {
namespace {

// floor(total * k / n) without overflow for any 63-bit total
std::uint64_t share(std::uint64_t total, std::uint64_t k, std::uint64_t n) {
  return total / n * k + total % n * k / n;
}

// The first row of the first chunk that begins at or after byte `cut` of the state, in a tensor that begins
// at byte `begin`. Returns all rows if there is no such chunk.
std::int64_t first_row_from(const TensorSpec& tensor, std::uint64_t begin, std::uint64_t cut) {
  if (cut <= begin) return 0;
  if (cut >= begin + tensor.bytes()) return tensor.rows();
  const auto rows = static_cast<std::uint64_t>(rows_in_chunk(tensor));
  const std::uint64_t chunk_bytes = rows * tensor.row_bytes();
  const std::uint64_t chunk = (cut - begin + chunk_bytes - 1) / chunk_bytes;
  return std::min(static_cast<std::int64_t>(chunk * rows), tensor.rows());
}

std::array<std::byte, 16> bytes_of(const Hash128& hash) {
  std::array<std::byte, 16> bytes{};
  for (std::size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<std::byte>(hash.high >> (56 - 8 * i));
    bytes[8 + i] = static_cast<std::byte>(hash.low >> (56 - 8 * i));
  }
  return bytes;
}

}  // namespace

std::int64_t rows_in_chunk(const TensorSpec& tensor) {
  return std::max<std::int64_t>(
      1, static_cast<std::int64_t>(kChunkBytes / std::max<std::size_t>(1, tensor.row_bytes())));
}

std::uint64_t chunks_in(const TensorSpec& tensor) {
  if (tensor.bytes() == 0) return 0;
  const auto rows = static_cast<std::uint64_t>(rows_in_chunk(tensor));
  return (static_cast<std::uint64_t>(tensor.rows()) + rows - 1) / rows;
}

std::uint64_t chunks_in(const StateSpec& spec) {
  std::uint64_t chunks = 0;
  for (const TensorSpec& tensor : spec) chunks += chunks_in(tensor);
  return chunks;
}

std::vector<Slice> chunks_of(const StateSpec& spec) {
  std::vector<Slice> chunks;
  for (std::size_t i = 0; i < spec.size(); ++i) {
    if (spec[i].bytes() == 0) continue;
    const std::int64_t rows = rows_in_chunk(spec[i]);
    for (std::int64_t first = 0; first < spec[i].rows(); first += rows)
      chunks.push_back({i, first, std::min(rows, spec[i].rows() - first)});
  }
  return chunks;
}

std::vector<std::size_t> first_chunks(const StateSpec& spec) {
  std::vector<std::size_t> first;
  std::size_t chunks = 0;
  for (const TensorSpec& tensor : spec) {
    first.push_back(chunks);
    chunks += chunks_in(tensor);
  }
  return first;
}

std::vector<Slice> part_of(const StateSpec& spec, int parts, int part) {
  const std::uint64_t total = total_bytes(spec);
  const auto n = static_cast<std::uint64_t>(parts);
  const std::uint64_t from = share(total, static_cast<std::uint64_t>(part), n);
  const std::uint64_t to = share(total, static_cast<std::uint64_t>(part) + 1, n);
  std::vector<Slice> slices;
  std::uint64_t begin = 0;
  for (std::size_t i = 0; i < spec.size(); ++i) {
    const std::int64_t first = first_row_from(spec[i], begin, from);
    const std::int64_t last = first_row_from(spec[i], begin, to);
    if (spec[i].bytes() > 0 && last > first) slices.push_back({i, first, last - first});
    begin += spec[i].bytes();
  }
  return slices;
}

std::span<std::byte> bytes_of(const State& state, const Slice& slice) {
  const Tensor& tensor = state[slice.tensor];
  const std::size_t row = tensor.spec.row_bytes();
  return tensor.bytes.subspan(static_cast<std::size_t>(slice.first_row) * row,
                              static_cast<std::size_t>(slice.rows) * row);
}

ChunkHashes hash_chunks(const State& state) {
  ChunkHashes hashes;
  for (const Slice& chunk : chunks_of(spec_of(state))) hashes.push_back(hash128(bytes_of(state, chunk)));
  return hashes;
}

Hash128 state_digest(std::uint64_t step, const StateSpec& spec, const ChunkHashes& chunks) {
  if (chunks.size() != chunks_in(spec)) throw std::logic_error("the chunk hashes are of another state");
  Hasher128 hasher;
  const auto number = [&hasher](auto value) { hasher.update(std::as_bytes(std::span(&value, 1))); };
  const auto text = [&hasher, &number](std::string_view value) {
    number(std::uint64_t{value.size()});
    hasher.update(std::as_bytes(std::span(value)));
  };
  number(step);
  auto chunk = chunks.begin();
  for (const TensorSpec& tensor : spec) {
    text(tensor.name);
    text(name_of(tensor.dtype));
    number(std::uint64_t{tensor.shape.size()});
    for (const std::int64_t dimension : tensor.shape) number(dimension);
    for (std::uint64_t i = chunks_in(tensor); i > 0; --i) hasher.update(bytes_of(*chunk++));
  }
  return hasher.digest();
}

Hash128 state_digest(std::uint64_t step, const State& state) {
  return state_digest(step, spec_of(state), hash_chunks(state));
}

}  // namespace rekindle::checkpoint
