// The layout of a trainer's control segment. Only the trainer's own process writes the segment; peers read
// it.
#pragma once

#include <atomic>
#include <cstdint>

#include "exchange/exchange.hpp"

namespace rekindle::exchange {

using Word = std::atomic<std::uint64_t>;

inline constexpr std::uint64_t kControlMagic = 0x3258455f4c444e4bULL;
inline constexpr int kMaxSlots = 64;
inline constexpr int kPages = 4;
inline constexpr std::size_t kNonceBytes = 32;  // text, no terminator
// Staging memory is a ring of blocks. Two blocks of 4 MiB were as fast; these eight take half the memory.
inline constexpr std::size_t kStagingBlock = std::size_t{512} << 10;  // bytes
inline constexpr std::size_t kStagingBlocks = 8;
inline constexpr std::size_t kStagingBytes = kStagingBlocks * kStagingBlock;

// The progress of a rank within one generation. The five words only grow while the stamp stays the same.
struct alignas(64) GenerationPage {
  Word stamp;  // number of this hub's exchange; 0 while the page is being rewritten for another generation
  Word term, generation, rank, plan_hash;
  std::atomic<std::uint32_t> left;  // aborted or ended: this rank publishes nothing more

  alignas(64) Word contributed;  // rounds whose header (and partial sums) have been published
  Word ready;                    // rounds whose shard is summed
  Word read_done;                // rounds whose sums have been read
  Word staged, copied;           // all_gather: chunks staged by this rank; chunks copied from the peers
  Word copy_hash;                // of the current all_gather
  StepHeader headers[2];         // the header of round r is headers[r % 2]
};

struct Control {
  std::uint64_t magic;
  char nonce[kNonceBytes];
  std::uint64_t floats;
  std::atomic<std::int32_t> slot_fds[kMaxSlots];  // -1: not allocated yet
  std::atomic<std::int32_t> staging_fd;
  Word slots_stamp;                 // number of the hub's exchange for which the slots are written
  std::atomic<std::uint32_t> bell;  // futex word: incremented, and waiters woken, after every publication
  GenerationPage pages[kPages];     // exchange n of this hub uses pages[n % kPages]
};
static_assert(Word::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace rekindle::exchange
