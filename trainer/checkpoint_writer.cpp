#include "trainer/checkpoint_writer.hpp"

#include <exception>
#include <system_error>
#include <utility>

#include "base/log.hpp"
#include "base/text.hpp"

namespace rekindle::trainer {

struct CheckpointWriter::Saved {
  checkpoint::ShardEntry shard;
  std::string tensors, digest;  // as protocol::ShardWritten
};

Result<CheckpointWriter::Saved> CheckpointWriter::save(const std::filesystem::path& run_dir,
                                                       const Shard& shard, const checkpoint::State& state,
                                                       const std::function<void()>& all_read) {
  const checkpoint::CheckpointId id{shard.step, shard.generation.term, shard.generation.number};
  Saved saved;
  saved.digest = checkpoint::state_digest(shard.step, state).hex();
  REKINDLE_TRY(saved.shard, checkpoint::write_shard(run_dir, id, state, shard.ranks, shard.rank, all_read));
  if (shard.rank == 0) {
    checkpoint::StateSpec spec;
    for (const checkpoint::Tensor& tensor : state) spec.push_back(tensor.spec);
    saved.tensors = checkpoint::to_json(spec);
  }
  return saved;
}

void CheckpointWriter::begin(const Shard& shard, checkpoint::State state, bool parks) {
  finish();
  link_.send(protocol::ShardBegun{shard.generation, link_.trainer(), shard.step, parks});
  {
    const std::scoped_lock lock(mutex_);
    busy_ = reads_ = true;
  }
  try {
    thread_ = std::jthread([this, shard, state = std::move(state)] { write(shard, state); });
  } catch (const std::system_error& error) {
    report(shard, fail(str("no thread to write a checkpoint with: ", error.what())), {});
  }
}

void CheckpointWriter::write(const Shard& shard, const checkpoint::State& state) {
  const auto began = std::chrono::steady_clock::now();
  Result<Saved> saved = fail("");
  try {
    saved = save(run_dir_, shard, state, [this] { no_longer_reads(); });
  } catch (const std::exception& error) {  // no memory, no thread: training can go on
    saved = fail(str("the shard of step ", shard.step, " could not be written: ", error.what()));
  }
  report(shard, saved, std::chrono::steady_clock::now() - began);
}

void CheckpointWriter::report(const Shard& shard, const Result<Saved>& saved,
                              std::chrono::duration<double, std::milli> took) {
  if (saved) {
    link_.send(protocol::ShardWritten{shard.generation, link_.trainer(), shard.step, shard.rank,
                                      checkpoint::to_json(saved->shard), saved->tensors, saved->digest,
                                      took.count()});
  } else {
    log_warning(saved.error().line());
    link_.send(protocol::ShardFailed{shard.generation, link_.trainer(), shard.step, saved.error().line()});
  }
  no_longer_reads();
  const std::scoped_lock lock(mutex_);
  busy_ = false;
  changed_.notify_all();
}

void CheckpointWriter::no_longer_reads() {
  const std::scoped_lock lock(mutex_);
  reads_ = false;
  changed_.notify_all();
}

bool CheckpointWriter::reads() const {
  const std::scoped_lock lock(mutex_);
  return reads_;
}

bool CheckpointWriter::busy() const {
  const std::scoped_lock lock(mutex_);
  return busy_;
}

void CheckpointWriter::release() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !reads_; });
}

void CheckpointWriter::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !busy_; });
}

}  // namespace rekindle::trainer
