// The hashes of the chunks of the state. They are computed during an update, while a chunk is in the
// processor's cache, or later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/chunks.hpp"
#include "trainer/arenas.hpp"

namespace rekindle::trainer {

class StateHashes {
 public:
  // `arenas`: the memory that the update changes, from beginning to end. Empty if the state is not in this
  // memory (on a GPU).
  StateHashes(const checkpoint::State& state, const Arenas& arenas);

  void forget();  // call before the state changes
  bool during_update() const { return during_update_; }
  // These bytes of every arena have their final values. Pieces that come out of order are hashed later, by
  // all().
  void updated(std::size_t first, std::size_t bytes);

  bool complete() const { return hashed_ == chunks_.size(); }
  // Computes the missing hashes. The state must be in the memory that was passed to the constructor.
  const checkpoint::ChunkHashes& all();
  Hash128 digest(std::uint64_t step);

 private:
  struct Chunk {
    std::size_t end = 0;    // in its arena
    std::size_t index = 0;  // in canonical order
    std::span<const std::byte> bytes;
  };
  void hash_until(std::size_t end);

  checkpoint::StateSpec spec_;
  std::vector<Chunk> chunks_;  // sorted by `end`
  checkpoint::ChunkHashes hashes_;
  std::size_t hashed_ = 0;   // number of hashed chunks
  std::size_t updated_ = 0;  // updated bytes of every arena
  bool during_update_;
};

}  // namespace rekindle::trainer
