// The hashes of the state's chunks: taken while an update has them in the processor's cache, or later.
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
  // `arenas`: the memory that the update changes, all of them from their beginning to their end. None if that
  // is not where the state's bytes are (on a GPU).
  StateHashes(const checkpoint::State& state, const Arenas& arenas);

  void forget();  // the state is about to change
  bool on_the_way() const { return on_the_way_; }
  // These bytes of every arena are as they will be. Pieces that come out of order are left for later.
  void updated(std::size_t first, std::size_t bytes);

  bool complete() const { return hashed_ == chunks_.size(); }
  // Hashes what is missing: the state must be in the memory that it was made of.
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
  std::vector<Chunk> chunks_;  // in order of their ends
  checkpoint::ChunkHashes hashes_;
  std::size_t hashed_ = 0;   // of chunks_
  std::size_t updated_ = 0;  // bytes of every arena
  bool on_the_way_;
};

}  // namespace rekindle::trainer
