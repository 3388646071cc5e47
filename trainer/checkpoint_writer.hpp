// Writes this trainer's shards behind the step loop's back: one at a time, in a thread of its own.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <stop_token>
#include <thread>

#include "checkpoint/checkpoint.hpp"
#include "protocol/messages.hpp"
#include "trainer/link.hpp"

namespace rekindle::trainer {

class CheckpointWriter {
 public:
  CheckpointWriter(Link& link, std::filesystem::path run_dir) : link_(link), run_dir_(std::move(run_dir)) {}

  // All calls come from the step loop's thread.

  struct Shard {
    protocol::GenerationId generation;
    std::uint64_t step = 0;
    int ranks = 1, rank = 0;
  };
  // Says ShardBegun, and later ShardWritten or ShardFailed. Waits for the last one first. `state` must not
  // change before release() or finish() has returned. `chunks`: its hashes. `parks`: as ShardBegun.
  void begin(const Shard& shard, checkpoint::State state, checkpoint::ChunkHashes chunks, bool parks);
  bool busy() const;
  // As long as it takes to copy what has not been written, which nothing can cut short: meanwhile a trainer
  // that holds `step` says that it writes.
  void release(std::uint64_t step);
  void finish();

 private:
  struct Source {
    checkpoint::State state;
    checkpoint::ChunkHashes chunks;
    std::stop_token hurry;
  };
  void write(const Shard& shard, const Source& source);
  Result<protocol::ShardWritten> save(const Shard& shard, const Source& source);
  void report(const Shard& shard, const Result<protocol::ShardWritten>& saved);
  void no_longer_reads();

  Link& link_;
  const std::filesystem::path run_dir_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool busy_ = false, reads_ = false;  // guarded by mutex_
  std::stop_source hurry_;             // of the last shard; guarded by mutex_
  std::jthread thread_;                // of the last shard; last: it uses all of the above
};

}  // namespace rekindle::trainer
