// What a trainer does in one generation, in the order of trainer/trainer.cpp and trainer/step_loop.cpp.
#include <algorithm>

#include "base/text.hpp"
#include "protocol/planted.hpp"
#include "trainer.hpp"
#include "worker.hpp"
#include "world.hpp"

namespace rekindle::sim {

using namespace protocol;

void Meeting::changed() {
  for (const Seat& seat : seats) {
    if (seat.trainer != nullptr) seat.trainer->look_again();
  }
}

Hash128 TrainerProcess::state_hash() const { return {state_, held_.step}; }

// The first rank that is not there yet, as far as this one can see.
int TrainerProcess::wait_for(const std::function<bool(const Seat&)>& there) const {
  const DataLinks& links = world().links();
  for (std::size_t rank = 0; rank < meeting_->seats.size(); ++rank) {
    if (static_cast<int>(rank) == start_.rank) continue;
    const Seat& seat = meeting_->seats[rank];
    const bool came = seat.trainer != nullptr;
    const std::string other = came ? seat.trainer->worker().name() : "";
    if (came && links.blocked(worker_.name(), other)) return static_cast<int>(rank);
    const bool gone = came && seat.left && world().plan().peers_see_deaths;
    if (there(seat) && !(came && links.broken(worker_.name(), other))) continue;
    if (gone || (came && links.broken(worker_.name(), other))) {
      const_cast<TrainerProcess*>(this)->broken_peer_ = static_cast<int>(rank);
      return -2;
    }
    return static_cast<int>(rank);
  }
  return -1;
}

Task<Parked> TrainerProcess::run(Start start) {
  start_ = std::move(start);
  world().checks().enters(*this, start_);
  control_.enter(start_.generation);
  inside_ = true;
  broken_peer_ = -1;
  Parked word;
  if (refusal(start_, held_)) {
    word = parked(ParkReason::kRefused);
  } else {
    meeting_ = &world().meeting(start_.generation, start_.members.size());
    auto problem = co_await reach();
    if (problem) {
      word = std::move(*problem);
    } else {
      if (const auto missed = missed_steps(start_, history_)) say(*missed);
      word = co_await train();
    }
    seat().left = seat().gone_on = true;
    meeting_->changed();
    meeting_ = nullptr;
  }
  control_.leave();
  inside_ = false;
  world().checks().parks(*this, word);
  co_return word;
}

Task<TrainerProcess::Woken> TrainerProcess::connect() {
  set_phase(TrainerPhase::kConnecting);
  const Woken woken = co_await sleep(world().engine().between(1, 10));
  if (woken != Woken::kReady) co_return woken;
  seat().trainer = this;
  meeting_->changed();
  co_return co_await until(
      [this] { return wait_for([](const Seat& seat) { return seat.trainer != nullptr; }); });
}

// Posts a header and waits for all the others'.
Task<TrainerProcess::Woken> TrainerProcess::meet(Header mine, std::vector<Header>& all) {
  const std::size_t n = seat().posted.size();
  seat().posted.push_back(mine);
  meeting_->changed();
  const bool hasty = planted(Bug::kUpdateBeforeAllShards) && mine.operation == 'r';
  const Woken woken = co_await until([this, n, hasty] {
    const int waits = wait_for([n](const Seat& seat) { return seat.posted.size() > n; });
    return hasty && waits > 0 ? -1 : waits;
  });
  if (woken != Woken::kReady) co_return woken;
  all.clear();
  for (const Seat& seat : meeting_->seats) {
    const Header header = seat.posted.size() > n ? seat.posted[n] : mine;
    if (header.operation != mine.operation) co_return Woken::kBroken;
    all.push_back(header);
  }
  co_return Woken::kReady;
}

Task<std::optional<Parked>> TrainerProcess::reach() {
  if (start_.sources.empty()) set_held({false, 0});
  const Woken met = co_await connect();
  if (met != Woken::kReady) co_return failed(met);
  saved_ = start_.saved;
  if (start_.sources.empty()) co_return co_await restore();
  if (start_.sources.size() < start_.members.size()) co_return co_await copy();
  co_return std::nullopt;
}

Task<std::optional<Parked>> TrainerProcess::copy() {
  set_phase(TrainerPhase::kCopying);
  const bool source = std::count(start_.sources.begin(), start_.sources.end(), start_.rank) > 0;
  if (!source) set_held({false, 0});
  std::vector<Header> headers;
  Woken woken = co_await meet({'c', 0, {}}, headers);
  if (woken != Woken::kReady) co_return failed(woken);
  if (!source) {
    const auto from = static_cast<std::size_t>(
        start_.sources[static_cast<std::size_t>(start_.rank) % start_.sources.size()]);
    TrainerProcess& peer = *meeting_->seats[from].trainer;
    const State first_half = peer.state_;
    woken = co_await sleep(world().engine().between(5, 60));
    if (woken != Woken::kReady) co_return failed(woken);
    state_ = first_half == peer.state_ ? first_half : mix64(first_half ^ peer.state_);
    tainted_ = peer.tainted_;
  }
  Header mine{'C', 0, {state_, start_.step}};
  woken = co_await meet(mine, headers);
  if (woken != Woken::kReady) co_return failed(woken);
  std::vector<Hash128> hashes;
  for (const Header& header : headers) hashes.push_back(header.hash);
  const Comparison compared = compare_hashes(hashes);
  if (!compared.alike) {
    Parked differs = parked(ParkReason::kStatesDiffer);
    differs.differing = compared.minority;
    co_return differs;
  }
  if (!source) set_held({true, start_.step});
  co_return std::nullopt;
}

Task<std::optional<Parked>> TrainerProcess::restore() {
  if (start_.restore.empty()) {
    state_ = world().right().at(0);
    tainted_ = false;
    set_held({true, 0});
    co_return std::nullopt;
  }
  set_phase(TrainerPhase::kRestoring);
  const StoredCheckpoint* stored = nullptr;
  // Names show late on another host.
  for (Ms waited = 0; waited <= 5000; waited += 250) {
    stored = world().disk().find(start_.restore);
    if (stored != nullptr && stored->committed && !stored->set_aside &&
        world().disk().shows(stored->committed_at, stored->committed_on, host()))
      break;
    stored = nullptr;
    ++progress_;
    const Woken woken = co_await sleep(250);
    if (woken != Woken::kReady) co_return failed(woken);
  }
  Woken woken = co_await sleep(world().engine().between(5, 60));
  if (woken != Woken::kReady) co_return failed(woken);
  if (world().disk().away()) {
    Parked word = parked(ParkReason::kUnreadable);
    word.detail = "the storage is away";
    co_return word;
  }
  if (stored == nullptr || stored->damaged || stored->set_aside) {
    Parked word = parked(ParkReason::kRestoreFailed);
    word.detail = str(start_.restore, stored == nullptr ? " is not there" : " is damaged");
    co_return word;
  }
  std::vector<Header> headers;
  woken = co_await meet({'s', 0, {}}, headers);
  if (woken != Woken::kReady) co_return failed(woken);
  state_ = stored->state;
  tainted_ = stored->tainted;
  set_held({true, start_.step});
  co_return std::nullopt;
}

Task<Parked> TrainerProcess::train() {
  const Job& job = world().plan().job;
  Next next = after_start(job, start_);
  for (;;) {
    if (next.postponed) control_.checkpoint_postponed();
    if (next.write && !saved_) co_await write_checkpoint(next.park);
    bool stopped = false;
    if (next.evaluate) {
      const Woken woken = co_await evaluate(stopped);
      if (woken != Woken::kReady) co_return failed(woken);
    }
    if (stopped) {
      if (!saved_) co_await write_checkpoint(true);
      co_return parked(ParkReason::kCut);
    }
    if (next.park) co_return parked(next.reason);
    const Agreed agreed = co_await step();
    if (agreed.woken != Woken::kReady) co_return failed(agreed.woken);
    if (!agreed.states.alike) {
      Parked differs = parked(ParkReason::kStatesDiffer);
      differs.differing = agreed.states.minority;
      co_return differs;
    }
    if ((agreed.flags & kNonFiniteFlag) != 0) {
      Parked word = parked(ParkReason::kNonFinite);
      word.detail = "the loss is not finite";
      co_return word;
    }
    world().checks().agrees(*this, agreed.flags);
    next = after_step(job, held_.step, agreed.flags);
  }
}

Task<TrainerProcess::Woken> TrainerProcess::compute() {
  const int leaves = static_cast<int>(world().plan().job.micro_batches),
            ranks = static_cast<int>(start_.members.size());
  const int first = start_.rank * leaves / ranks, end = (start_.rank + 1) * leaves / ranks;
  slot_ = {held_.step, ~state_, first, end - first, tainted_};  // not what it should be until it is complete
  for (int leaf = first; leaf < end; ++leaf) {
    const Woken woken = co_await sleep(world().plan().leaf_ms + world().engine().between(0, 3));
    if (woken != Woken::kReady) co_return woken;
    ++progress_;
    if (world().poisoned(held_.step, leaf)) crash(11);
    if (!alive()) co_await until([] { return 0; });
  }
  slot_.state = state_;
  slot_.tainted = tainted_;
  co_return Woken::kReady;
}

// Reads every rank's part out of its memory.
Task<TrainerProcess::Woken> TrainerProcess::read_sums(std::uint64_t& sum, bool& tainted) {
  for (const Seat& seat : meeting_->seats) {
    const Woken woken = co_await sleep(world().engine().between(0, world().plan().exchange_ms));
    if (woken != Woken::kReady) co_return woken;
    const Slot& slot = seat.trainer->slot_;
    for (int leaf = slot.first; leaf < slot.first + slot.count; ++leaf)
      sum = add_leaf(sum, leaf_gradient(slot.state, slot.step, leaf));
    tainted = tainted || slot.tainted;
  }
  // Who was aborted meanwhile may have used its memory for another generation since.
  for (std::size_t rank = 0; rank < meeting_->seats.size(); ++rank) {
    if (!meeting_->seats[rank].gone_on) continue;
    broken_peer_ = static_cast<int>(rank);
    co_return Woken::kBroken;
  }
  co_return Woken::kReady;
}

Task<TrainerProcess::Agreed> TrainerProcess::step() {
  Agreed agreed;
  set_phase(TrainerPhase::kComputing);
  Header mine{'r', 0, {}};
  if (hash_due(world().plan().job, held_.step)) mine.hash = state_hash();
  agreed.woken = co_await compute();
  if (agreed.woken != Woken::kReady) co_return agreed;
  mine.flags = own_flags();
  if (world().not_finite(held_.step)) mine.flags |= kNonFiniteFlag;

  set_phase(TrainerPhase::kExchanging);
  std::vector<Header> headers;
  agreed.woken = co_await meet(mine, headers);
  if (agreed.woken != Woken::kReady) co_return agreed;
  std::vector<Hash128> hashes;
  for (const Header& header : headers) {
    hashes.push_back(header.hash);
    agreed.flags |= header.flags;
  }
  if (planted(Bug::kCutFlagNotOred)) agreed.flags = mine.flags;
  agreed.states = compare_hashes(hashes);
  std::uint64_t sum = 0;
  bool tainted = false;
  agreed.woken = co_await read_sums(sum, tainted);
  const bool is_void = (agreed.flags & kNonFiniteFlag) != 0 || !agreed.states.alike;
  if (agreed.woken != Woken::kReady || is_void) co_return agreed;
  co_await apply(sum, tainted);

  // "I have read you."
  const std::size_t reads = ++seat().reads;
  meeting_->changed();
  if (planted(Bug::kSegmentReusedBeforeRead)) co_return agreed;
  agreed.woken = co_await until(
      [this, reads] { return wait_for([reads](const Seat& seat) { return seat.reads >= reads; }); });
  co_return agreed;
}

// From here on aborts are ignored until the whole update is in.
Task<bool> TrainerProcess::apply(std::uint64_t sum, bool tainted) {
  set_phase(TrainerPhase::kApplying);
  const std::uint64_t step = held_.step;
  StepDone done;
  done.generation = start_.generation;
  done.step = step + 1;
  done.loss = 1;
  done.images_per_second = 100;
  done.step_ms = 50;
  done.trainers = static_cast<int>(start_.members.size());
  if (planted(Bug::kReportBeforeUpdate) && start_.rank == 0) say(done);
  held_ = {false, step};
  co_await sleep(world().engine().between(1, world().plan().update_ms), false);
  state_ = update(state_, sum);
  tainted_ = tainted_ || tainted;
  saved_ = false;
  set_held({true, step + 1});
  history_.push_back(done);
  if (!planted(Bug::kReportBeforeUpdate) && start_.rank == 0) say(done);
  co_return true;
}

Task<TrainerProcess::Woken> TrainerProcess::evaluate(bool& stopped) {
  for (int chunk = 0; chunk < 3; ++chunk) {
    set_phase(TrainerPhase::kEvaluating);
    Woken woken = co_await sleep(world().plan().leaf_ms);
    if (woken != Woken::kReady) co_return woken;
    std::vector<Header> headers;
    woken = co_await meet({'e', control_.flags() & kStopFlag, {}}, headers);
    if (woken != Woken::kReady) co_return woken;
    for (const Header& header : headers) stopped = stopped || (header.flags & kStopFlag) != 0;
    if (stopped) co_return Woken::kReady;
  }
  if (start_.rank == 0) say(Evaluated{start_.generation, held_.step, 0, 10, 1.0, 0.5});
  co_return Woken::kReady;
}

std::uint32_t TrainerProcess::own_flags() const { return control_.flags() | (writing_ ? kWritingFlag : 0U); }

// Beside the steps that follow; before it parks, all of it.
Task<bool> TrainerProcess::write_checkpoint(bool parks) {
  constexpr Ms kLook = 20;
  if (parks || writing_) {
    set_phase(TrainerPhase::kWriting);
    while (writing_) co_await sleep(kLook, false);
  }
  begin_shard(parks);
  while (parks && writing_) co_await sleep(kLook, false);
  co_return true;
}

void TrainerProcess::begin_shard(bool parks) {
  saved_ = true;
  control_.checkpoint_begins();
  Disk& disk = world().disk();
  if (writing_) world().violated(str(name(), " begins a shard before its last one is written"));
  writing_ = {{held_.step, start_.generation}, start_.rank, state_, tainted_};
  say(ShardBegun{start_.generation, name(), held_.step, parks});
  world().trainer_came_to(*this, TrainerPhase::kWriting);
  after(world().plan().write_ms + (disk.slow() ? 4000 : 0) + world().engine().between(0, 20),
        [this] { write_shard(); });
}

void TrainerProcess::write_shard() {
  Disk& disk = world().disk();
  const CheckpointId id = writing_->id;
  if (disk.full() || disk.away()) {
    writing_.reset();
    return say(ShardFailed{id.generation, name(), id.step, "it cannot be written"});
  }
  // The real one reads a state that the step loop does not touch before all of it has been read.
  if (planted(Bug::kUpdateBeforeSnapshot)) writing_->state = state_;
  disk.checkpoints()[id].shards[writing_->rank] = {writing_->state, writing_->tainted, false, false, name()};
  if (planted(Bug::kReportBeforeFsync)) say(shard_written());
  after(world().engine().between(1, 10), [this] { finish_shard(); });
}

ShardWritten TrainerProcess::shard_written() const {
  const auto& [id, rank, state, tainted] = *writing_;
  return {id.generation, name(), id.step, rank, str(rank), "", Hash128{state, id.step}.hex(), 20};
}

void TrainerProcess::finish_shard() {
  Disk& disk = world().disk();
  const CheckpointId id = writing_->id;
  const auto stored = disk.checkpoints().find(id);
  if (disk.away() || stored == disk.checkpoints().end() || !stored->second.shards.contains(writing_->rank)) {
    writing_.reset();
    return say(ShardFailed{id.generation, name(), id.step, "its directory cannot be found"});
  }
  stored->second.shards[writing_->rank].durable = true;
  const ShardWritten written = shard_written();
  writing_.reset();
  if (!planted(Bug::kReportBeforeFsync)) say(written);
}

}  // namespace rekindle::sim
