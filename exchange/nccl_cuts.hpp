// How the exchange by NCCL is cut, so that each piece is over soon, also on a slow network. Internal to the
// module.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "device/device.hpp"
#include "exchange/layout.hpp"

namespace rekindle::exchange {

inline constexpr std::size_t kFloatsOfAlignment = device::kAlignment / sizeof(float);
inline std::size_t padded(std::size_t floats) {
  return std::max<std::size_t>(1, (floats + kFloatsOfAlignment - 1) / kFloatsOfAlignment) *
         kFloatsOfAlignment;
}

// Every shard is cut at the same multiples of `most_` floats. The sums of one cut lie together, the shards in
// the order of their ranks and padded to one length, as an all-gather wants them.
class NcclCuts {
 public:
  // `piece_bytes`: what one rank sends at most in one group, if it sends to every rank. One rank sends
  // nothing.
  NcclCuts(const Layout& layout, int ranks, std::size_t floats, std::size_t piece_bytes) {
    for (int rank = 0; rank < ranks; ++rank) shards_.push_back(shard_of(floats, ranks, rank));
    for (const Shard& shard : shards_) stride_ = std::max(stride_, padded(shard.count));
    const auto messages = static_cast<std::size_t>(ranks * *std::ranges::max_element(layout.partials));
    const std::size_t fit = piece_bytes / sizeof(float) / messages / kFloatsOfAlignment * kFloatsOfAlignment;
    most_ = ranks == 1 ? stride_ : std::clamp(fit, kFloatsOfAlignment, stride_);
  }

  std::size_t count() const { return (stride_ + most_ - 1) / most_; }
  const Shard& shard(int rank) const { return shards_[static_cast<std::size_t>(rank)]; }
  // The part of the arena that is in this cut of the shard. Its count is 0 if the shard is too short.
  Shard part(int rank, std::size_t cut) const {
    const Shard& whole = shard(rank);
    const std::size_t first = std::min(cut * most_, whole.count);
    return {whole.first + first, std::min(most_, whole.count - first)};
  }
  // Floats between two shards of a cut.
  std::size_t stride(std::size_t cut) const { return std::min(most_, stride_ - cut * most_); }
  // The first float of a cut of the shard, in the memory of all sums.
  std::size_t place(int rank, std::size_t cut) const {
    return shards_.size() * cut * most_ + static_cast<std::size_t>(rank) * stride(cut);
  }
  std::size_t floats_of_sums() const { return shards_.size() * stride_; }
  // The first float of a cut, in the memory of one partial sum of a shard.
  std::size_t begin(std::size_t cut) const { return cut * most_; }

 private:
  std::vector<Shard> shards_;  // by rank
  std::size_t stride_ = 0;     // of the longest shard, padded
  std::size_t most_ = 0;       // floats of a cut of a shard
};

}  // namespace rekindle::exchange
