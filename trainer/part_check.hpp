// Whether a part of the state is still what it was when it was hashed: looked at chunk by chunk, each before
// an update changes it, which has it in the processor's cache anyway.
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
  // `hashes`: of all chunks of `state`. `part`: whole chunks of it. `arenas`: the memory that the update
  // changes, in which the state lies.
  PartCheck(const checkpoint::State& state, const std::vector<checkpoint::Slice>& part,
            const checkpoint::ChunkHashes& hashes, const Arenas& arenas);

  // These bytes of every arena are about to change.
  void before_change(std::size_t first, std::size_t bytes);
  // All that has not been looked at is.
  void look_at_rest();
  bool done() const;
  bool differs() const;     // by what has been looked at
  void expect_no_update();  // none soon: whoever waits for the result need not wait for one
  // The result. Leaves it to the others until `patience` is over, then looks at the rest by itself.
  bool alike(std::chrono::milliseconds patience);

 private:
  struct Chunk {
    std::size_t begin = 0;  // in its arena
    std::span<const std::byte> bytes;
    Hash128 hash;
  };
  bool is_done() const { return looked_at_ == chunks_.size(); }  // needs mutex_
  void look_until(std::size_t begin);

  std::vector<Chunk> chunks_;  // in order of their beginnings
  mutable std::mutex mutex_;
  std::condition_variable done_;
  std::size_t looked_at_ = 0;  // of chunks_; guarded by mutex_, as the next ones
  bool alike_ = true, expects_update_ = true;
};

}  // namespace rekindle::trainer
