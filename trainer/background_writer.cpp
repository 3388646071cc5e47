#include "trainer/background_writer.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "base/log.hpp"
#include "base/text.hpp"

namespace rekindle::trainer {

using protocol::ShardWritten;

namespace {

// If no update begins within this time, the step is long enough for the writer to read its part of the state
// a second time, and the commit is not delayed further.
constexpr std::chrono::milliseconds kUpdateComesWithin{2000};

}  // namespace

void BackgroundWriter::begin(const ShardId& shard, checkpoint::State state, checkpoint::ChunkHashes chunks,
                             const Arenas& arenas, bool pauses) {
  finish();
  link_.send(protocol::ShardBegun{shard.generation, link_.trainer(), shard.step, pauses});
  shard_ = shard;
  check_.reset();
  {
    const std::scoped_lock lock(mutex_);
    stage_ = Stage::kReading;
    reported_changed_ = false;
    hurry_ = std::stop_source();
  }
  try {
    if (!pauses && !arenas.empty()) {  // otherwise no update will pass over the state
      check_ = std::make_shared<PartCheck>(
          state, checkpoint::part_of(checkpoint::spec_of(state), shard.ranks, shard.rank), chunks, arenas);
    }
    Source source{std::move(state), std::move(chunks), hurry_.get_token(), check_};
    thread_ = std::jthread([this, shard, source = std::move(source)] { write(shard, source); });
  } catch (const std::exception& error) {  // no memory or no thread: training can continue
    report(shard, fail(str("the shard of step ", shard.step, " could not be written: ", error.what())));
  }
}

void BackgroundWriter::write(const ShardId& shard, const Source& source) {
  try {
    report(shard, save(shard, source));
  } catch (const std::exception& error) {  // no memory or no thread: training can continue
    report(shard, fail(str("the shard of step ", shard.step, " could not be written: ", error.what())));
  }
}

Result<ShardWritten> BackgroundWriter::save(const ShardId& shard, const Source& source) {
  const auto began = std::chrono::steady_clock::now();
  const checkpoint::CheckpointId id{shard.step, shard.generation.term, shard.generation.number};
  const checkpoint::Contents contents{checkpoint::spec_of(source.state), source.chunks};
  const std::string digest = checkpoint::state_digest(shard.step, contents.tensors, contents.chunks).hex();
  const std::string tensors = shard.rank == 0 ? checkpoint::to_json(contents) : "";
  std::chrono::duration<double, std::milli> took{};
  const auto written = [&] {
    took = std::chrono::steady_clock::now() - began;
    enter(Stage::kChecking);
  };
  checkpoint::Reading reading{[this] { enter(Stage::kWriting); }, source.hurry};
  reading.block_written = [this] { link_.block_written(); };
  if (source.check) {
    reading.still_as_hashed = [&] {
      written();
      return source.check->unchanged(kUpdateComesWithin);
    };
  }
  REKINDLE_TRY(
      const checkpoint::ShardEntry entry,
      checkpoint::write_shard(run_dir_, id, source.state, source.chunks, shard.ranks, shard.rank, reading));
  if (!source.check) written();
  return ShardWritten{shard.generation,           link_.trainer(), shard.step, shard.rank,
                      checkpoint::to_json(entry), tensors,         digest,     took.count()};
}

void BackgroundWriter::report(const ShardId& shard, const Result<ShardWritten>& saved) {
  const bool changed = !saved && saved.error().kind == ErrorKind::kChangedState;
  if (saved) {
    link_.send(*saved);
  } else {
    log_warning(saved.error().line());
    link_.send(
        protocol::ShardFailed{shard.generation, link_.trainer(), shard.step, saved.error().line(), changed});
  }
  const std::scoped_lock lock(mutex_);
  stage_ = Stage::kIdle;
  reported_changed_ = changed;
  changed_.notify_all();
}

void BackgroundWriter::enter(Stage stage) {
  const std::scoped_lock lock(mutex_);
  stage_ = std::max(stage_, stage);
  changed_.notify_all();
}

bool BackgroundWriter::busy() const {
  const std::scoped_lock lock(mutex_);
  return stage_ < Stage::kChecking;
}

void BackgroundWriter::release_to_update(std::uint64_t step) {
  std::unique_lock lock(mutex_);
  if (stage_ == Stage::kReading) {
    link_.set_phase(protocol::TrainerPhase::kWriting, step);
    hurry_.request_stop();
  }
  changed_.wait(lock, [this] { return stage_ > Stage::kReading; });
}

void BackgroundWriter::before_change(std::size_t first, std::size_t bytes) {
  if (!check_) return;
  check_->before_change(first, bytes);
  report_if_changed();
}

// The mismatch must be reported before the state is used, also if the write itself fails or has failed.
void BackgroundWriter::report_if_changed() {
  if (!check_->differs()) return;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stage_ == Stage::kIdle; });
    if (std::exchange(reported_changed_, true)) return;
  }
  const std::string line = str("the state of step ", shard_.step, " has changed since it was hashed");
  log_warning(line);
  link_.send(protocol::ShardFailed{shard_.generation, link_.trainer(), shard_.step, line, true});
}

void BackgroundWriter::expect_no_update() {
  if (check_) check_->expect_no_update();
}

void BackgroundWriter::release(std::uint64_t step) {
  release_to_update(step);
  check_rest();
}

void BackgroundWriter::check_rest() {
  if (!check_) return;
  check_->check_rest();
  report_if_changed();
}

void BackgroundWriter::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stage_ > Stage::kReading; });
  lock.unlock();
  check_rest();
  lock.lock();
  changed_.wait(lock, [this] { return stage_ == Stage::kIdle; });
}

}  // namespace rekindle::trainer
