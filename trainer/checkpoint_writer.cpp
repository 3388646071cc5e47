#include "trainer/checkpoint_writer.hpp"

#include <chrono>
#include <exception>
#include <system_error>
#include <utility>

#include "base/log.hpp"
#include "base/text.hpp"

namespace rekindle::trainer {

using protocol::ShardWritten;

namespace {

// Longer steps are long enough for the writer to read its part of the state once more; the commit comes soon.
constexpr std::chrono::milliseconds kUpdateComesWithin{2000};

}  // namespace

void CheckpointWriter::begin(const Shard& shard, checkpoint::State state, checkpoint::ChunkHashes chunks,
                             const Arenas& arenas, bool parks) {
  finish();
  link_.send(protocol::ShardBegun{shard.generation, link_.trainer(), shard.step, parks});
  check_.reset();
  if (!parks && !arenas.empty()) {  // else no update will look at it
    check_ = std::make_shared<PartCheck>(
        state, checkpoint::part_of(checkpoint::spec_of(state), shard.ranks, shard.rank), chunks, arenas);
  }
  {
    const std::scoped_lock lock(mutex_);
    busy_ = writes_ = reads_ = true;
    hurry_ = std::stop_source();
  }
  Source source{std::move(state), std::move(chunks), hurry_.get_token(), check_};
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
  const checkpoint::Contents contents{checkpoint::spec_of(source.state), source.chunks};
  const std::string digest = checkpoint::state_digest(shard.step, contents.tensors, contents.chunks).hex();
  const std::string tensors = shard.rank == 0 ? checkpoint::to_json(contents) : "";
  std::chrono::duration<double, std::milli> took{};
  const auto written = [&] {
    took = std::chrono::steady_clock::now() - began;
    no_longer_writes();
  };
  checkpoint::Reading reading{[this] { no_longer_reads(); }, source.hurry};
  if (source.check) {
    reading.still_as_hashed = [&] {
      written();
      return source.check->alike(kUpdateComesWithin);
    };
  }
  REKINDLE_TRY(
      const checkpoint::ShardEntry entry,
      checkpoint::write_shard(run_dir_, id, source.state, source.chunks, shard.ranks, shard.rank, reading));
  if (!source.check) written();
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
  busy_ = writes_ = reads_ = false;
  changed_.notify_all();
}

void CheckpointWriter::no_longer_reads() {
  const std::scoped_lock lock(mutex_);
  reads_ = false;
  changed_.notify_all();
}

void CheckpointWriter::no_longer_writes() {
  const std::scoped_lock lock(mutex_);
  writes_ = false;
}

bool CheckpointWriter::busy() const {
  const std::scoped_lock lock(mutex_);
  return writes_;
}

void CheckpointWriter::release_to_update(std::uint64_t step) {
  std::unique_lock lock(mutex_);
  if (reads_) {
    link_.set_phase(protocol::TrainerPhase::kWriting, step);
    hurry_.request_stop();
  }
  changed_.wait(lock, [this] { return !reads_; });
}

void CheckpointWriter::before_change(std::size_t first, std::size_t bytes) {
  if (check_) check_->before_change(first, bytes);
}

void CheckpointWriter::expect_no_update() {
  if (check_) check_->expect_no_update();
}

void CheckpointWriter::release(std::uint64_t step) {
  release_to_update(step);
  if (check_) check_->look_at_rest();
}

void CheckpointWriter::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !reads_; });
  lock.unlock();
  if (check_) check_->look_at_rest();
  lock.lock();
  changed_.wait(lock, [this] { return !busy_; });
}

}  // namespace rekindle::trainer
