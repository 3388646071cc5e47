// all_gather() through shared memory: every rank copies its bytes into its staging memory, and the receiving
// ranks copy them from there.
//
// Chunk n, counted over all calls, goes to block n % kStagingBlocks, which is free when all ranks have copied
// chunk n - kStagingBlocks. So a source stages the next chunks while peers read the last ones.
#pragma once

#include <cstdint>
#include <vector>

#include "exchange/byte_cursor.hpp"
#include "exchange/exchange.hpp"
#include "exchange/local_memory.hpp"
#include "exchange/shm_generation.hpp"

namespace rekindle::exchange {

class ShmCopy {
 public:
  ShmCopy(LocalMemory& memory, ShmGeneration& generation) : memory_(memory), generation_(generation) {}

  // As Exchange::all_gather(). Valid after ShmGeneration::meet().
  Status run(RankPieces pieces, const std::vector<bool>& receives);

 private:
  // The bytes that one rank contributes.
  struct Stream {
    ByteCursor cursor;
    std::size_t left = 0;  // bytes
    std::size_t take_chunk();
  };

  std::size_t block() const;
  Status agree(std::uint64_t hash);
  Status stage(Stream& mine);
  Status copy_out(std::vector<Stream>& streams);
  Status wait_for(ShmPeer& peer, Published wanted);

  LocalMemory& memory_;
  ShmGeneration& generation_;
  std::uint64_t chunks_ = 0;      // so far, over all calls
  std::uint64_t last_chunk_ = 0;  // of the current call
};

}  // namespace rekindle::exchange
