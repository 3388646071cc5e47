// Writes this trainer's shards behind the step loop's back: one at a time, in a thread of its own.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>

#include "checkpoint/checkpoint.hpp"
#include "protocol/messages.hpp"
#include "trainer/arenas.hpp"
#include "trainer/link.hpp"
#include "trainer/part_check.hpp"

namespace rekindle::trainer {

class CheckpointWriter {
 public:
  CheckpointWriter(Link& link, FilePath run_dir) : link_(link), run_dir_(std::move(run_dir)) {}
  ~CheckpointWriter() { finish(); }
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // All calls come from the step loop's thread.

  struct Shard {
    protocol::GenerationId generation;
    std::uint64_t step = 0;
    int ranks = 1, rank = 0;
  };
  // Says ShardBegun, and later ShardWritten or ShardFailed. Waits for the last one first. `state` must not
  // change before release() or finish() has returned, or as release_to_update() says. `chunks`: its hashes.
  // `arenas`: the memory that an update changes; none if the state is not there. `parks`: as ShardBegun.
  void begin(const Shard& shard, checkpoint::State state, checkpoint::ChunkHashes chunks,
             const Arenas& arenas, bool parks);
  bool busy() const;  // it writes
  // As long as it takes to copy what has not been written, and to write what is being written from where it
  // lies (8 MiB at most), which nothing can cut short: meanwhile a trainer that holds `step` says that it
  // writes. Where the state is not what was hashed, that is told first.
  void release(std::uint64_t step);
  // The same for an update, which says what it is about to change while checks() is true.
  void release_to_update(std::uint64_t step);
  bool checks() const { return check_ && !check_->done(); }
  void before_change(std::size_t first, std::size_t bytes);
  void expect_no_update();  // none soon: what waits for it to be looked at is not to wait any longer
  void finish();

 private:
  struct Source {
    checkpoint::State state;
    checkpoint::ChunkHashes chunks;
    std::stop_token hurry;
    std::shared_ptr<PartCheck> check;  // none: the state is copied, and hashed then
  };
  void write(const Shard& shard, const Source& source);
  Result<protocol::ShardWritten> save(const Shard& shard, const Source& source);
  void report(const Shard& shard, const Result<protocol::ShardWritten>& saved);
  void no_longer_reads();
  void no_longer_writes();
  void look_at_rest();
  void tell_if_changed();

  Link& link_;
  const FilePath run_dir_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool busy_ = false, writes_ = false, reads_ = false;  // guarded by mutex_, as the next one
  bool told_changed_ = false;                           // of the last shard's state
  std::stop_source hurry_;                              // of the last shard; guarded by mutex_
  Shard shard_;                                         // the last
  std::shared_ptr<PartCheck> check_;                    // of it
  std::jthread thread_;                                 // of the last shard; last: it uses all of the above
};

}  // namespace rekindle::trainer
