#include "exchange/shm_copy.hpp"

#include <algorithm>

#include "exchange/failure.hpp"
#include "exchange/layout.hpp"

namespace rekindle::exchange {

std::size_t ShmCopy::Stream::take_chunk() {
  const std::size_t bytes = std::min(kStagingBlock, left);
  left -= bytes;
  return bytes;
}

std::size_t ShmCopy::block() const { return chunks_ % kStagingBlocks * kStagingBlock; }

Status ShmCopy::run(RankPieces pieces, const std::vector<bool>& receives) {
  REKINDLE_CHECK(check_copy(pieces, receives, generation_.ranks()));
  if (generation_.peers().empty()) return {};
  REKINDLE_CHECK(agree(copy_hash(pieces, receives)));
  std::vector<Stream> streams;
  std::size_t longest = 0;
  for (const auto& of_rank : pieces) {
    streams.push_back({ByteCursor(of_rank), total_bytes(of_rank)});
    longest = std::max(longest, streams.back().left);
  }
  const int rank = generation_.rank();
  last_chunk_ = chunks_ + (longest + kStagingBlock - 1) / kStagingBlock;
  while (chunks_ < last_chunk_) {
    REKINDLE_CHECK(generation_.check_not_aborted());
    ++chunks_;
    if (streams[rank].left > 0) REKINDLE_CHECK(stage(streams[rank]));
    if (receives[rank]) REKINDLE_CHECK(copy_out(streams));
    generation_.publish(&GenerationPage::copied, chunks_);
    generation_.moved();
  }
  return generation_.wait_for_all({&GenerationPage::copied, chunks_});
}

// Takes one chunk number without any bytes.
Status ShmCopy::agree(std::uint64_t hash) {
  ++chunks_;
  generation_.page().copy_hash.store(hash, std::memory_order_relaxed);
  generation_.publish(&GenerationPage::staged, chunks_);
  REKINDLE_CHECK(generation_.wait_for_all({&GenerationPage::staged, chunks_}));
  for (const ShmPeer& peer : generation_.peers())
    if (peer.copy_hash() != hash) return fail_rank(peer.rank(), kOtherCopy);
  generation_.publish(&GenerationPage::copied, chunks_);
  // No rank may change its hash (in the next call) before all ranks have compared it.
  return generation_.wait_for_all({&GenerationPage::copied, chunks_});
}

Status ShmCopy::stage(Stream& mine) {
  REKINDLE_TRY(const std::span<std::byte> staging, memory_.staging());
  for (ShmPeer& peer : generation_.peers())
    if (chunks_ > kStagingBlocks)
      REKINDLE_CHECK(wait_for(peer, {&GenerationPage::copied, chunks_ - kStagingBlocks}));
  mine.cursor.read(staging.subspan(block(), mine.take_chunk()));
  generation_.publish(&GenerationPage::staged, chunks_);
  return {};
}

Status ShmCopy::copy_out(std::vector<Stream>& streams) {
  for (ShmPeer& peer : generation_.peers()) {
    Stream& theirs = streams[peer.rank()];
    if (theirs.left == 0) continue;
    REKINDLE_CHECK(wait_for(peer, {&GenerationPage::staged, chunks_}));
    REKINDLE_TRY(const std::byte* staging, peer.staging());
    theirs.cursor.write({staging + block(), theirs.take_chunk()});
    if (!peer.still_here()) return fail_rank(peer.rank(), "it left the generation");
  }
  return {};
}

// If a third rank is lost during the copy, the wait fails, even if that rank is ahead of the chunk waited
// for: the ranks that copy from it stop.
Status ShmCopy::wait_for(ShmPeer& peer, Published wanted) {
  return generation_.wait_for(peer, wanted, {&GenerationPage::copied, last_chunk_});
}

}  // namespace rekindle::exchange
