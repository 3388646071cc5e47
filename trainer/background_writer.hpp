// The writer of shards in a real trainer process: one thread for each shard.
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
#include "trainer/checkpoint_writer.hpp"
#include "trainer/link.hpp"
#include "trainer/part_check.hpp"

namespace rekindle::trainer {

class BackgroundWriter final : public CheckpointWriter {
 public:
  BackgroundWriter(Link& link, FilePath run_dir) : link_(link), run_dir_(std::move(run_dir)) {}
  ~BackgroundWriter() override { BackgroundWriter::finish(); }

  void begin(const ShardId& shard, checkpoint::State state, checkpoint::ChunkHashes chunks,
             const Arenas& arenas, bool pauses) override;
  bool busy() const override;
  void release(std::uint64_t step) override;
  void release_to_update(std::uint64_t step) override;
  bool checks() const override { return check_ && !check_->done(); }
  void before_change(std::size_t first, std::size_t bytes) override;
  void expect_no_update() override;
  void finish() override;

 private:
  // The last shard passes through these stages in this order:
  //
  //   kReading   the writer reads the state: no update may begin (release_to_update() waits)
  //   kWriting   bytes are on their way to storage: no new shard may begin
  //   kChecking  the shard is durable; whether the state was unchanged is still being found out
  //   kIdle      the result was reported
  //
  // A write that fails goes to kIdle at once.
  enum class Stage { kReading, kWriting, kChecking, kIdle };
  struct Source {
    checkpoint::State state;
    checkpoint::ChunkHashes chunks;
    std::stop_token hurry;
    std::shared_ptr<PartCheck> check;  // null: the writer copies the state first, and hashes the copy
  };
  void write(const ShardId& shard, const Source& source);
  Result<protocol::ShardWritten> save(const ShardId& shard, const Source& source);
  void report(const ShardId& shard, const Result<protocol::ShardWritten>& saved);
  void enter(Stage stage);
  void check_rest();
  void report_if_changed();

  Link& link_;
  const FilePath run_dir_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Stage stage_ = Stage::kIdle;        // guarded by mutex_, like the next field
  bool reported_changed_ = false;     // a change of the last shard's state was reported
  std::stop_source hurry_;            // of the last shard; guarded by mutex_
  ShardId shard_;                     // the last shard
  std::shared_ptr<PartCheck> check_;  // check of the last shard
  std::jthread thread_;  // writes the last shard; last member, because the thread uses all others
};

}  // namespace rekindle::trainer
