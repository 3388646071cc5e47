// Writes this trainer's shards behind the step loop's back: one at a time, in a thread of its own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
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
  // Says ShardBegun, and later ShardWritten or ShardFailed. Nothing may be under way, and `state` must not
  // change before release() or finish() has returned. `parks`: as ShardBegun.
  void begin(const Shard& shard, checkpoint::State state, bool parks);
  bool busy() const;
  bool reads() const;  // release() would have to wait
  void release();
  void finish();

 private:
  struct Saved;
  static Result<Saved> save(const std::filesystem::path& run_dir, const Shard& shard,
                            const checkpoint::State& state, const std::function<void()>& all_read);
  void write(const Shard& shard, const checkpoint::State& state);
  void report(const Shard& shard, const Result<Saved>& saved, std::chrono::duration<double, std::milli> took);
  void no_longer_reads();

  Link& link_;
  const std::filesystem::path run_dir_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool busy_ = false, reads_ = false;  // guarded by mutex_
  std::jthread thread_;                // of the last shard; last: it uses all of the above
};

}  // namespace rekindle::trainer
