#include "trainer/state_hashes.hpp"

#include <algorithm>

namespace rekindle::trainer {

StateHashes::StateHashes(const checkpoint::State& state, const Arenas& arenas)
    : spec_(checkpoint::spec_of(state)),
      hashes_(checkpoint::chunks_in(spec_)),
      during_update_(!arenas.empty()) {
  for (const checkpoint::Slice& chunk : checkpoint::chunks_of(spec_)) {
    const std::span<const std::byte> bytes = checkpoint::bytes_of(state, chunk);
    const std::size_t begin = begin_in_arena(bytes, arenas);
    chunks_.push_back({begin == kNowhere ? kNowhere : begin + bytes.size(), chunks_.size(), bytes});
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
  hash_until(kNowhere);
  return hashes_;
}

Hash128 StateHashes::digest(std::uint64_t step) { return checkpoint::state_digest(step, spec_, all()); }

}  // namespace rekindle::trainer
