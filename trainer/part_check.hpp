// Checks whether a part of the state still matches its hashes. Each chunk is checked just before an update
// changes it, because the update loads the chunk into the processor's cache anyway.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <span>
#include <vector>

#include "checkpoint/chunks.hpp"
#include "trainer/arenas.hpp"

namespace rekindle::trainer {

// All functions may be called from any thread.
class PartCheck {
 public:
  // `hashes`: the hashes of all chunks of `state`. `part`: the slices to check, made of complete chunks,
  // in canonical order.
  // `arenas`: the memory that the update changes and in which the state is stored.
  PartCheck(const checkpoint::State& state, const std::vector<checkpoint::Slice>& part,
            const checkpoint::ChunkHashes& hashes, const Arenas& arenas);

  // Call before these bytes of every arena change.
  void before_change(std::size_t first, std::size_t bytes);
  // Checks all chunks that have not been checked yet.
  void check_rest();
  bool done() const;
  bool differs() const;     // result for the chunks checked so far
  void expect_no_update();  // no update will come soon: unchanged() stops waiting
  // Returns the result. Waits up to `patience` for updates to check the chunks, then checks the rest itself.
  bool unchanged(std::chrono::milliseconds patience);

 private:
  struct Chunk {
    std::size_t begin = 0;  // in its arena
    std::span<const std::byte> bytes;
    Hash128 hash;
  };
  bool is_done() const { return checked_ == chunks_.size(); }  // needs mutex_
  void check_until(std::size_t begin);

  std::vector<Chunk> chunks_;  // sorted by `begin`
  mutable std::mutex mutex_;
  std::condition_variable done_;
  std::size_t checked_ = 0;  // number of checked chunks; guarded by mutex_, like the next fields
  bool unchanged_ = true, expects_update_ = true;
};

}  // namespace rekindle::trainer
