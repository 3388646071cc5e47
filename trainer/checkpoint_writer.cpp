#include "trainer/checkpoint_writer.hpp"

#include <chrono>
#include <exception>
#include <system_error>
#include <utility>

#include "base/log.hpp"
#include "base/text.hpp"

namespace rekindle::trainer {

using protocol::ShardWritten;

void CheckpointWriter::begin(const Shard& shard, checkpoint::State state, checkpoint::ChunkHashes chunks,
                             bool parks) {
  finish();
  link_.send(protocol::ShardBegun{shard.generation, link_.trainer(), shard.step, parks});
  {
    const std::scoped_lock lock(mutex_);
    busy_ = reads_ = true;
    hurry_ = std::stop_source();
  }
  Source source{std::move(state), std::move(chunks), hurry_.get_token()};
  try {
    thread_ = std::jthread([this, shard, source = std::move(source)] { write(shard, source); });
  } catch (const std::system_error& error) {
    report(shard, fail(str("no thread to write a checkpoint with: ", error.what())));
  }
}

void CheckpointWriter::write(const Shard& shard, const Source& source) {
  try {
    report(shard, save(shard, source));
  } catch (const std::exception& error) {  // no memory, no thread: training can go on
    report(shard, fail(str("the shard of step ", shard.step, " could not be written: ", error.what())));
  }
}

Result<ShardWritten> CheckpointWriter::save(const Shard& shard, const Source& source) {
  const auto began = std::chrono::steady_clock::now();
  const checkpoint::CheckpointId id{shard.step, shard.generation.term, shard.generation.number};
  REKINDLE_TRY(const checkpoint::ShardEntry entry,
               checkpoint::write_shard(run_dir_, id, source.state, source.chunks, shard.ranks, shard.rank,
                                       {[this] { no_longer_reads(); }, source.hurry}));
  const checkpoint::Contents contents{checkpoint::spec_of(source.state), source.chunks};
  const std::string digest = checkpoint::state_digest(shard.step, contents.tensors, contents.chunks).hex();
  const std::string tensors = shard.rank == 0 ? checkpoint::to_json(contents) : "";
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
  return ShardWritten{shard.generation,           link_.trainer(), shard.step, shard.rank,
                      checkpoint::to_json(entry), tensors,         digest,     took.count()};
}

void CheckpointWriter::report(const Shard& shard, const Result<ShardWritten>& saved) {
  if (saved) {
    link_.send(*saved);
  } else {
    log_warning(saved.error().line());
    link_.send(protocol::ShardFailed{shard.generation, link_.trainer(), shard.step, saved.error().line(),
                                     checkpoint::is_changed_state(saved.error())});
  }
  const std::scoped_lock lock(mutex_);
  busy_ = reads_ = false;
  changed_.notify_all();
}

void CheckpointWriter::no_longer_reads() {
  const std::scoped_lock lock(mutex_);
  reads_ = false;
  changed_.notify_all();
}

bool CheckpointWriter::busy() const {
  const std::scoped_lock lock(mutex_);
  return busy_;
}

void CheckpointWriter::release(std::uint64_t step) {
  std::unique_lock lock(mutex_);
  if (reads_) {
    link_.set_phase(protocol::TrainerPhase::kWriting, step);
    hurry_.request_stop();
  }
  changed_.wait(lock, [this] { return !reads_; });
}

void CheckpointWriter::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !busy_; });
}

}  // namespace rekindle::trainer
