// The interface through which the step loop writes its shards: one at a time, while training continues.
#pragma once

#include <cstddef>
#include <cstdint>

#include "checkpoint/checkpoint.hpp"
#include "protocol/messages.hpp"
#include "trainer/arenas.hpp"

namespace rekindle::trainer {

struct ShardId {
  protocol::GenerationId generation;
  std::uint64_t step = 0;
  int ranks = 1, rank = 0;
};

// The step loop's thread makes all calls.
class CheckpointWriter {
 public:
  virtual ~CheckpointWriter() = default;
  CheckpointWriter() = default;
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Sends ShardBegun, and later ShardWritten or ShardFailed. Waits for the last shard first. `state` must not
  // change before release() or finish() has returned, except as release_to_update() allows. `chunks`: the
  // hashes of the state. `arenas`: the memory that an update changes; empty if the state is not in host
  // memory. `pauses`: as ShardBegun::parks.
  virtual void begin(const ShardId& shard, checkpoint::State state, checkpoint::ChunkHashes chunks,
                     const Arenas& arenas, bool pauses) = 0;
  virtual bool busy() const = 0;  // whether a shard is being written
  // Returns when the state may change: the rest of the shard has been copied, and the piece that is being
  // written in place (8 MiB at most, not interruptible) is finished. Until then a trainer with the state of
  // `step` reports that it writes. A state that no longer matches its hashes is reported first.
  virtual void release(std::uint64_t step) = 0;
  // The same before an update. While checks() is true, the update announces each change with before_change().
  virtual void release_to_update(std::uint64_t step) = 0;
  virtual bool checks() const = 0;
  virtual void before_change(std::size_t first, std::size_t bytes) = 0;
  virtual void expect_no_update() = 0;  // no update will come soon: a check stops waiting for one
  virtual void finish() = 0;
};

}  // namespace rekindle::trainer
