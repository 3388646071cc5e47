#include "trainer/checkpoint_writer.hpp"

#include <chrono>
#include <utility>

#include "base/log.hpp"

namespace rekindle::trainer {

namespace {

struct Saved {
  checkpoint::ShardEntry shard;
  std::string tensors, digest;  // as protocol::ShardWritten
};

Result<Saved> save(const std::filesystem::path& run_dir, const CheckpointWriter::Shard& shard,
                   const checkpoint::State& state, const std::function<void()>& all_read) {
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

}  // namespace

void CheckpointWriter::begin(const Shard& shard, checkpoint::State state, bool parks) {
  finish();
  link_.send(protocol::ShardBegun{shard.generation, link_.trainer(), shard.step, parks});
  {
    const std::scoped_lock lock(mutex_);
    busy_ = reads_ = true;
  }
  thread_ = std::jthread([this, shard, state = std::move(state)] { write(shard, state); });
}

void CheckpointWriter::write(const Shard& shard, const checkpoint::State& state) {
  const auto began = std::chrono::steady_clock::now();
  const auto saved = save(run_dir_, shard, state, [this] { no_longer_reads(); });
  if (saved) {
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
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
