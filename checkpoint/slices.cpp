#include "checkpoint/checkpoint.hpp"

namespace rekindle::checkpoint {
namespace {

// floor(total * k / n) without overflow for any 63-bit total
std::uint64_t share(std::uint64_t total, std::uint64_t k, std::uint64_t n) {
  return total / n * k + total % n * k / n;
}

// How many rows of a tensor that starts at byte `begin` of the state lie before byte `cut`, to the nearest
// row.
std::int64_t rows_before(const TensorSpec& tensor, std::uint64_t begin, std::uint64_t cut) {
  if (cut <= begin) return 0;
  if (cut >= begin + tensor.bytes()) return tensor.rows();
  const std::uint64_t row = tensor.row_bytes();
  return static_cast<std::int64_t>((cut - begin + row / 2) / row);
}

}  // namespace

std::vector<Slice> shard_slices(const StateSpec& spec, int shards, int shard) {
  const std::uint64_t total = total_bytes(spec);
  const auto n = static_cast<std::uint64_t>(shards);
  const std::uint64_t from = share(total, static_cast<std::uint64_t>(shard), n);
  const std::uint64_t to = share(total, static_cast<std::uint64_t>(shard) + 1, n);
  std::vector<Slice> slices;
  std::uint64_t begin = 0;
  for (std::size_t i = 0; i < spec.size(); ++i) {
    // Both shards at a cut compute the same row for it, so the slices of all shards tile the tensor.
    const std::int64_t first = rows_before(spec[i], begin, from);
    const std::int64_t last = rows_before(spec[i], begin, to);
    if (spec[i].bytes() > 0 && last > first) slices.push_back({i, first, last - first});
    begin += spec[i].bytes();
  }
  return slices;
}

}  // namespace rekindle::checkpoint
