#include "parts.hpp"

#include <algorithm>

#include "base/planted.hpp"
#include "base/text.hpp"
#include "checkpoint/failure.hpp"
#include "exchange/failure.hpp"
#include "trainer.hpp"
#include "worker.hpp"
#include "world.hpp"

namespace rekindle::sim {

using namespace protocol;
using Woken = TrainerProcess::Woken;

namespace {

std::string digest_of(std::uint64_t step, State values) {
  return checkpoint::state_digest(step, tensors_of(values)).hex();
}

}  // namespace

// ---- the clock ----

SimClock::TimePoint SimClock::now() const { return TimePoint(std::chrono::milliseconds(process_.clock())); }
void SimClock::sleep(std::chrono::milliseconds time) const { process_.sleep(time.count()); }

// ---- the link ----

const std::string& SimLink::trainer() const { return process_.name(); }

void SimLink::on_message(const ToTrainer& message) {
  control_.on_message(message);
  news_ = true;
  // The abort comes first: once the step loop sees the message, the next generation may begin.
  if (inside() && control_.aborted() && !aborted_.exchange(true)) exchange_->abort();
  process_.look_again();
}

void SimLink::send(const FromTrainer& message) {
  if (const auto* paused = std::get_if<Paused>(&message)) process_.world().checks().pauses(process_, *paused);
  process_.say(message);
}

std::optional<Start> SimLink::wait() {
  for (;;) {
    news_ = false;
    if (auto start = control_.next_start()) {
      start_ = *start;
      return start;
    }
    if (control_.quit()) return std::nullopt;
    process_.until([this] { return news_ ? -1 : 0; });
  }
}

void SimLink::enter(const GenerationId& generation, exchange::Exchange& exchange) {
  process_.world().checks().enters(process_, start_);
  control_.enter(generation);
  exchange_ = &exchange;
  aborted_ = control_.aborted();
  if (aborted_) exchange.abort();
}

void SimLink::leave() {
  control_.leave();
  exchange_ = nullptr;
}

void SimLink::set_phase(TrainerPhase phase, std::uint64_t step) {
  ++progress_;
  phase_ = phase;
  step_ = step;
  process_.observe();
  if (phase == TrainerPhase::kComputing) process_.world().checks().computes(process_, step);
  process_.world().trainer_came_to(process_, phase);
}

TrainerBeat SimLink::beat() const {
  TrainerBeat beat{process_.name(), phase_, control_.generation(), step_, progress_, -1, 0};
  if (inside()) beat.waiting_for = exchange_->waiting_for();
  return beat;
}

// ---- the task ----

SimTask::SimTask(TrainerProcess& process)
    : process_(process), model_(process.world().plan().job, process.world().plan().seed) {}

Status SimTask::initialize() {
  model_.initialize();
  process_.set_tainted(false);
  return {};
}

std::vector<trainer::GradientTensor> SimTask::gradient_tensors() const {
  std::vector<trainer::GradientTensor> tensors;
  for (const trainer::TensorPlace& place : model_.layout().tensors())
    tensors.push_back({place.spec.name, place.offset, place.floats});
  return tensors;
}

Result<trainer::MicroBatchResult> SimTask::train(std::uint64_t step, int micro_batch,
                                                 std::span<float> gradient,
                                                 const std::atomic<bool>& aborted) {
  World& world = process_.world();
  if (process_.sleep(world.plan().leaf_ms + world.engine().between(0, 3)) != Woken::kReady || aborted)
    return forward_error(exchange::aborted_error());
  if (process_.inside() && world.samples_away(process_.host())) REKINDLE_CHECK(not_read());
  if (process_.inside() && world.poisoned(step, micro_batch)) process_.crash(11);
  if (process_.inside() && world.unusable(step, micro_batch, process_.host()))
    return forward_error({ExitCode::kConfig, "a sample is damaged", {}, ErrorKind::kDamage});
  process_.slot_written(step);
  model_.train(step, micro_batch, gradient);
  constexpr std::uint64_t kOneIn = 64;  // micro-batches has a sample that is left out
  if ((5 * step + static_cast<std::uint64_t>(micro_batch)) % kOneIn == 3)
    skipped_.push_back(str("a sample of step ", step, " is damaged"));
  const bool is_number = !(process_.inside() && world.not_finite(step));
  return trainer::MicroBatchResult{is_number ? 1.0 : std::numeric_limits<double>::quiet_NaN(), {{1, 1}}};
}

Status SimTask::not_read() {
  if (!process_.world().plan().samples_away->hangs)
    return forward_error({ExitCode::kConfig, "a sample cannot be read", {}, ErrorKind::kSystem});
  if (process_.sleep(std::chrono::milliseconds(trainer::kSampleLook).count()) != Woken::kReady)
    return forward_error(exchange::aborted_error());
  return forward_error({ExitCode::kConfig, "samples are not read yet", {}, ErrorKind::kNotYet});
}

Result<trainer::EvaluationResult> SimTask::evaluate(std::uint64_t, std::uint64_t count,
                                                    const std::atomic<bool>&) {
  if (process_.sleep(process_.world().plan().leaf_ms) != Woken::kReady)
    return forward_error(exchange::aborted_error());
  if (process_.inside() && process_.world().samples_away(process_.host())) REKINDLE_CHECK(not_read());
  return trainer::EvaluationResult{{static_cast<double>(count), count},
                                   {{static_cast<double>(count), count}}};
}

void SimTask::update(std::size_t first, std::span<const float> sum, const optim::Step& step) {
  World& world = process_.world();
  process_.sleep(world.engine().between(0, world.plan().update_ms), false);
  model_.host().update(first, sum, step);
}

Status SimTask::finish_update() {
  process_.sleep(1, false);
  process_.taint_state();
  return model_.host().finish_update();
}

// ---- the writer ----

void SimWriter::begin(const trainer::ShardId& shard, checkpoint::State state, checkpoint::ChunkHashes chunks,
                      const trainer::Arenas&, bool pauses) {
  finish();
  World& world = process_.world();
  process_.say(ShardBegun{shard.generation, process_.name(), shard.step, pauses});
  const std::string digest = checkpoint::state_digest(shard.step, checkpoint::spec_of(state), chunks).hex();
  writing_ = {{shard.step, shard.generation}, shard.rank, digest, process_.tainted(), {}};
  world.trainer_came_to(process_, TrainerPhase::kWriting);
  process_.after(world.plan().write_ms + world.disk().delay() + world.engine().between(0, 20),
                 [this] { write(); });
}

void SimWriter::release(std::uint64_t) {
  if (!writing_ || writing_->read) return;
  process_.sleep(process_.world().engine().between(0, 3), false);
  if (writing_ && !writing_->read) writing_->read = process_.task().snapshot();
}

void SimWriter::finish() {
  constexpr Ms kLook = 20;
  while (writing_) process_.sleep(kLook, false);
}

void SimWriter::fail(const std::string& why, bool changed) {
  const CheckpointId id = writing_->id;
  if (changed && process_.world().bits_flipped() == 0)
    process_.world().violated(str(process_.name(), " writes a state that has changed since it was hashed"));
  writing_.reset();
  process_.say(ShardFailed{id.generation, process_.name(), id.step, why, changed});
}

void SimWriter::write() {
  Disk& disk = process_.world().disk();
  if (disk.full() || disk.away()) return fail("it cannot be written");
  if (!writing_->read) writing_->read = process_.task().snapshot();
  if (digest_of(writing_->id.step, *writing_->read) != writing_->digest)
    return fail("the state has changed since it was hashed", true);
  disk.checkpoints()[writing_->id].shards[writing_->rank] = {
      *writing_->read, writing_->tainted, false, false, process_.name(), disk.made_on(process_.host())};
  if (planted(Bug::kReportBeforeFsync)) process_.say(written());
  process_.after(process_.world().engine().between(1, 10), [this] { finish_shard(); });
}

ShardWritten SimWriter::written() const {
  const Writing& w = *writing_;
  return {w.id.generation, process_.name(), w.id.step, w.rank, str(w.rank), "", w.digest, 20};
}

void SimWriter::finish_shard() {
  Disk& disk = process_.world().disk();
  const auto stored = disk.checkpoints().find(writing_->id);
  if (disk.away() || stored == disk.checkpoints().end() || !stored->second.shards.contains(writing_->rank))
    return fail("its directory cannot be found");
  stored->second.shards[writing_->rank].durable = true;
  const ShardWritten done = written();
  writing_.reset();
  if (!planted(Bug::kReportBeforeFsync)) process_.say(done);
}

// ---- the storage ----

Result<checkpoint::Manifest> SimStorage::read_manifest(const std::string& name) {
  World& world = process_.world();
  const FilePath path = FilePath(name);
  const StoredCheckpoint* stored = nullptr;
  // Names become visible late on another host.
  for (Ms waited = 0; waited <= kSeenWithin; waited += 250) {
    stored = world.disk().find(name);
    if (stored != nullptr && stored->committed && !stored->set_aside &&
        world.disk().shows_checkpoint(stored->manifest, process_.host()))
      break;
    stored = nullptr;
    process_.link().progress();
    if (process_.sleep(250) != Woken::kReady) return forward_error(exchange::aborted_error());
  }
  if (world.disk().away())
    return forward_error(Error{ExitCode::kGaveUp, "the storage is away", {}, ErrorKind::kSystem});
  if (stored == nullptr) return forward_error(checkpoint::no_manifest_error(path));
  checkpoint::Manifest manifest;
  manifest.id.step = world.disk().id_of(name).step;
  manifest.digest = digest_of(manifest.id.step, stored->state);
  State values = stored->state;
  manifest.contents.tensors = checkpoint::spec_of(tensors_of(values));
  return manifest;
}

Status SimStorage::read_part(const std::string& name, const checkpoint::Manifest& manifest, int parts,
                             int part, const checkpoint::State& state,
                             const std::function<Status()>& each_block) {
  World& world = process_.world();
  if (process_.sleep(world.engine().between(5, 60)) != Woken::kReady)
    return forward_error(exchange::aborted_error());
  REKINDLE_CHECK(each_block());
  if (world.disk().away())
    return forward_error(Error{ExitCode::kGaveUp, "the storage is away", {}, ErrorKind::kSystem});
  StoredCheckpoint* stored = world.disk().find(name);
  const bool gone = stored == nullptr || stored->set_aside;
  // The damage is in one shard: the other ranks read theirs, and wait.
  if (gone || (stored->damaged && part == 0))
    return checkpoint::damaged(FilePath(name), gone ? "it is not there" : "a checksum is wrong");
  const checkpoint::State from = tensors_of(stored->state);
  for (const checkpoint::Slice& slice : checkpoint::part_of(manifest.contents.tensors, parts, part))
    std::ranges::copy(checkpoint::bytes_of(from, slice), checkpoint::bytes_of(state, slice).begin());
  process_.set_tainted(stored->tainted);
  return {};
}

}  // namespace rekindle::sim
