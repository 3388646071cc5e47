#include "trainer/checkpoint_writer.hpp"

#include <chrono>
#include <exception>
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
  shard_ = shard;
  check_.reset();
  {
    const std::scoped_lock lock(mutex_);
    busy_ = writes_ = reads_ = true;
    told_changed_ = false;
    hurry_ = std::stop_source();
  }
  try {
    if (!parks && !arenas.empty()) {  // else no update will look at it
      check_ = std::make_shared<PartCheck>(
          state, checkpoint::part_of(checkpoint::spec_of(state), shard.ranks, shard.rank), chunks, arenas);
    }
    Source source{std::move(state), std::move(chunks), hurry_.get_token(), check_};
    thread_ = std::jthread([this, shard, source = std::move(source)] { write(shard, source); });
  } catch (const std::exception& error) {  // no memory, no thread: training can go on
    report(shard, fail(str("the shard of step ", shard.step, " could not be written: ", error.what())));
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
  const bool changed = !saved && checkpoint::is_changed_state(saved.error());
  if (saved) {
    link_.send(*saved);
  } else {
    log_warning(saved.error().line());
    link_.send(
        protocol::ShardFailed{shard.generation, link_.trainer(), shard.step, saved.error().line(), changed});
  }
  const std::scoped_lock lock(mutex_);
  busy_ = writes_ = reads_ = false;
  told_changed_ = changed;
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
  if (!check_) return;
  check_->before_change(first, bytes);
  tell_if_changed();
}

// Before anything is made of such a state, and also where the write fails, or has failed.
void CheckpointWriter::tell_if_changed() {
  if (!check_->differs()) return;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !busy_; });
    if (std::exchange(told_changed_, true)) return;
  }
  const std::string line = str("the state of step ", shard_.step, " has changed since it was hashed");
  log_warning(line);
  link_.send(protocol::ShardFailed{shard_.generation, link_.trainer(), shard_.step, line, true});
}

void CheckpointWriter::expect_no_update() {
  if (check_) check_->expect_no_update();
}

void CheckpointWriter::release(std::uint64_t step) {
  release_to_update(step);
  look_at_rest();
}

void CheckpointWriter::look_at_rest() {
  if (!check_) return;
  check_->look_at_rest();
  tell_if_changed();
}

void CheckpointWriter::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !reads_; });
  lock.unlock();
  look_at_rest();
  lock.lock();
  changed_.wait(lock, [this] { return !busy_; });
}

}  // namespace rekindle::trainer
