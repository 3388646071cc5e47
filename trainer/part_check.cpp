#include "trainer/part_check.hpp"

#include <algorithm>

namespace rekindle::trainer {
namespace {

// Whether all rows of `slice` come before those of `chunk`.
bool is_before(const checkpoint::Slice& slice, const checkpoint::Slice& chunk) {
  if (slice.tensor != chunk.tensor) return slice.tensor < chunk.tensor;
  return slice.first_row + slice.rows <= chunk.first_row;
}

}  // namespace

PartCheck::PartCheck(const checkpoint::State& state, const std::vector<checkpoint::Slice>& part,
                     const checkpoint::ChunkHashes& hashes, const Arenas& arenas) {
  const std::vector<checkpoint::Slice> all = checkpoint::chunks_of(checkpoint::spec_of(state));
  auto slice = part.begin();  // both lists are in canonical order
  for (std::size_t i = 0; i < all.size(); ++i) {
    const checkpoint::Slice& chunk = all[i];
    while (slice != part.end() && is_before(*slice, chunk)) ++slice;
    if (slice == part.end()) break;
    if (slice->tensor != chunk.tensor || chunk.first_row < slice->first_row) continue;
    const std::span<const std::byte> bytes = checkpoint::bytes_of(state, all[i]);
    const std::size_t begin = begin_in_arena(bytes, arenas);
    chunks_.push_back({begin == kNowhere ? 0 : begin, bytes, hashes[i]});
  }
  std::ranges::stable_sort(chunks_, {}, &Chunk::begin);
}

void PartCheck::check_until(std::size_t begin) {
  const std::lock_guard lock(mutex_);
  for (; !is_done() && chunks_[checked_].begin < begin; ++checked_) {
    const Chunk& chunk = chunks_[checked_];
    unchanged_ = unchanged_ && hash128(chunk.bytes) == chunk.hash;
  }
  if (is_done() || !unchanged_) done_.notify_all();
}

void PartCheck::before_change(std::size_t first, std::size_t bytes) { check_until(first + bytes); }

void PartCheck::check_rest() { check_until(kNowhere); }

void PartCheck::expect_no_update() {
  const std::lock_guard lock(mutex_);
  expects_update_ = false;
  done_.notify_all();
}

bool PartCheck::done() const {
  const std::lock_guard lock(mutex_);
  return is_done();
}

bool PartCheck::differs() const {
  const std::lock_guard lock(mutex_);
  return !unchanged_;
}

bool PartCheck::unchanged(std::chrono::milliseconds patience) {
  {
    std::unique_lock lock(mutex_);
    done_.wait_for(lock, patience, [this] { return is_done() || !unchanged_ || !expects_update_; });
    if (!unchanged_) return false;
  }
  check_rest();
  return !differs();
}

}  // namespace rekindle::trainer
