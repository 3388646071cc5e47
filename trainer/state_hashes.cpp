#include "trainer/state_hashes.hpp"

#include <algorithm>
#include <functional>
#include <limits>

namespace rekindle::trainer {
namespace {

constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

// Where `bytes` end in the arena that they lie in.
std::size_t end_in_arena(std::span<const std::byte> bytes,
                         const std::vector<std::span<const std::byte>>& arenas) {
  const std::less_equal<const std::byte*> not_after;
  for (const std::span<const std::byte> arena : arenas) {
    const std::byte* const end = bytes.data() + bytes.size();
    if (not_after(arena.data(), bytes.data()) && not_after(end, arena.data() + arena.size()))
      return static_cast<std::size_t>(end - arena.data());
  }
  return kNever;
}

}  // namespace

StateHashes::StateHashes(const checkpoint::State& state,
                         const std::vector<std::span<const std::byte>>& arenas)
    : spec_(checkpoint::spec_of(state)), hashes_(checkpoint::chunks_in(spec_)), on_the_way_(!arenas.empty()) {
  for (const checkpoint::Slice& chunk : checkpoint::chunks_of(spec_)) {
    const std::span<const std::byte> bytes = checkpoint::bytes_of(state, chunk);
    chunks_.push_back({end_in_arena(bytes, arenas), chunks_.size(), bytes});
  }
  std::ranges::stable_sort(chunks_, {}, &Chunk::end);
}

void StateHashes::forget() { hashed_ = updated_ = 0; }

void StateHashes::updated(std::size_t first, std::size_t bytes) {
  if (first != updated_) return;
  updated_ += bytes;
  hash_until(updated_);
}

void StateHashes::hash_until(std::size_t end) {
  for (; hashed_ < chunks_.size() && chunks_[hashed_].end <= end; ++hashed_)
    hashes_[chunks_[hashed_].index] = hash128(chunks_[hashed_].bytes);
}

const checkpoint::ChunkHashes& StateHashes::all() {
  hash_until(kNever);
  return hashes_;
}

Hash128 StateHashes::digest(std::uint64_t step) { return checkpoint::state_digest(step, spec_, all()); }

}  // namespace rekindle::trainer
