#include "trainer/part_check.hpp"

#include <algorithm>

namespace rekindle::trainer {

PartCheck::PartCheck(const checkpoint::State& state, const std::vector<checkpoint::Slice>& part,
                     const checkpoint::ChunkHashes& hashes, const Arenas& arenas) {
  const std::vector<checkpoint::Slice> all = checkpoint::chunks_of(checkpoint::spec_of(state));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto holds_it = [&chunk = all[i]](const checkpoint::Slice& slice) {
      return slice.tensor == chunk.tensor && slice.first_row <= chunk.first_row &&
             chunk.first_row < slice.first_row + slice.rows;
    };
    if (!std::ranges::any_of(part, holds_it)) continue;
    const std::span<const std::byte> bytes = checkpoint::bytes_of(state, all[i]);
    const std::size_t begin = begin_in_arena(bytes, arenas);
    chunks_.push_back({begin == kNowhere ? 0 : begin, bytes, hashes[i]});
  }
  std::ranges::stable_sort(chunks_, {}, &Chunk::begin);
}

// One at a time, so that an update need not wait for the whole of what somebody else looks at.
void PartCheck::look_until(std::size_t begin) {
  for (bool more = true; more;) {
    const std::lock_guard lock(mutex_);
    const auto due = [&] { return !is_done() && chunks_[looked_at_].begin < begin; };
    if (due()) {
      const Chunk& chunk = chunks_[looked_at_];
      alike_ = alike_ && hash128(chunk.bytes) == chunk.hash;
      ++looked_at_;
      if (is_done()) done_.notify_all();
    }
    more = due();
  }
}

void PartCheck::before_change(std::size_t first, std::size_t bytes) { look_until(first + bytes); }

void PartCheck::look_at_rest() { look_until(kNowhere); }

void PartCheck::expect_no_update() {
  const std::lock_guard lock(mutex_);
  expects_update_ = false;
  done_.notify_all();
}

bool PartCheck::done() const {
  const std::lock_guard lock(mutex_);
  return is_done();
}

bool PartCheck::alike(std::chrono::milliseconds patience) {
  {
    std::unique_lock lock(mutex_);
    done_.wait_for(lock, patience, [this] { return is_done() || !expects_update_; });
  }
  look_at_rest();
  const std::lock_guard lock(mutex_);
  return alike_;
}

}  // namespace rekindle::trainer
