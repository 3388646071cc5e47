// Who is there, and who is not any more.
#include <algorithm>
#include <csignal>
#include <utility>

#include "base/text.hpp"
#include "protocol/coordinator.hpp"
#include "protocol/planted.hpp"

namespace rekindle::protocol {

// ---- coming ----

void Coordinator::admit(const std::string& worker, const TrainerState& state) {
  // What a running generation is like outranks a newcomer that was quicker to register.
  if (own_generations_ == 0 && state.started && state.started->generation > generation_.id)
    take_fingerprint(state.ready, true);
  if (!fits(worker, state.ready)) return;
  const std::string& name = state.ready.trainer;
  generation_.gone.erase(name);  // it was only silent
  const bool parked = state.parked && state.started && state.parked->generation == state.started->generation;
  const bool member = state.started && belongs(state);
  if (state.started && !member && !parked) {
    // It is still in a generation that is over for the others. What it holds may never be a source, and its
    // memory may be read by others that were cut off with it: the worker starts a new one instead.
    emit(OrderKill{worker,
                   {name, str("generation ", to_text(state.started->generation), " has ended without it")}});
    return lose({name}, "it was in an older generation");
  }
  const std::optional<Parked> source = member ? std::nullopt : waiting_source(name, state.parked);
  // It never got its Start, or not the newest: the generation cannot come about with it.
  if (auto* const known = there_.find(name); known != nullptr && known->rank >= 0 && !member && !source)
    lose({name}, "the connection broke before it was told to start");
  KnownTrainer& trainer = there_.trainers[name];
  trainer.worker = worker;
  trainer.ready = state.ready;
  trainer.heard = trainer.progressed = now_;
  trainer.beat = state.beat;
  trainer.peak_pss_bytes = std::max(trainer.peak_pss_bytes, state.beat.peak_pss_bytes);
  trainer.rank = -1;
  trainer.parked.reset();
  trainer.writing.reset();
  trainer.wrote.reset();
  if (member) {
    trainer.rank = state.started->rank;
    if (parked) trainer.parked = state.parked;
    // What was on its way when the connection broke is lost.
    if (!parked && stop_) send(name, Stop{generation_.id});
    if (!parked && phase_ == Phase::kParking) send(name, Abort{generation_.id});
  } else if (source) {
    trainer.rank = generation_.rank_of(name);
    trainer.parked = source;
    if (phase_ == Phase::kRunning) abort_members();
  }
  replay(state);
}

// A source whose Start never reached it: it still stands where it parked, with the step that the generation
// began at, and nobody else may hold that step.
std::optional<Parked> Coordinator::waiting_source(const std::string& trainer,
                                                  const std::optional<Parked>& parked) const {
  if (!parked || !parked->holds || parked->held_step != generation_.began ||
      parked->generation >= generation_.id || !generation_.sources.contains(trainer))
    return std::nullopt;
  return Parked{generation_.id,       trainer, true, generation_.began,
                ParkReason::kAborted, -1,      {},   "it was not told to start"};
}

const KnownTrainer* Coordinator::member(int rank) const {
  if (rank < 0 || rank >= static_cast<int>(generation_.members.size())) return nullptr;
  return there_.find(generation_.members[static_cast<std::size_t>(rank)]);
}

// Whether that trainer is in generation_.id; a coordinator without a generation of its own takes the newest
// that it is told of.
bool Coordinator::belongs(const TrainerState& state) {
  const GenerationId& id = state.started->generation;
  if (own_generations_ == 0 && id > generation_.id &&
      (phase_ == Phase::kGathering || phase_ == Phase::kAdopting))
    adopt(*state.started);
  if (id != generation_.id || !generation_.has(state.ready.trainer) ||
      generation_.gone.contains(state.ready.trainer))
    return false;
  // The connections broke, and nothing has been formed since: it may still be running, and it holds what
  // counts.
  if (phase_ == Phase::kGathering) {
    still_gathering_ = true;
    wait_for_members();
  }
  return phase_ == Phase::kAdopting || phase_ == Phase::kParking ||
         there_.trainers.contains(state.ready.trainer);
}

void Coordinator::wait_for_members() {
  phase_ = Phase::kAdopting;
  wait_until_ = now_ + config_.adopt_time;
}

void Coordinator::adopt(const Start& started) {
  Generation taken{
      .id = started.generation, .members = {}, .sources = {}, .began = started.step, .saves = started.stop};
  for (const Member& member : started.members) taken.members.push_back(member.trainer);
  for (const int rank : started.sources) taken.sources.insert(taken.members[static_cast<std::size_t>(rank)]);
  generation_ = std::move(taken);
  past_.remember(generation_);
  ledger_.restore.take_over(started.restore, started.verified);
  for (auto it = there_.trainers.begin(); it != there_.trainers.end();) {
    auto& [name, trainer] = *it;
    const bool moving = trainer.moving();
    trainer.parked = waiting_source(name, trainer.parked);
    trainer.rank = trainer.parked ? generation_.rank_of(name) : -1;
    if (moving) emit(OrderKill{trainer.worker, {name, "it is in an older generation"}});
    it = moving ? there_.trainers.erase(it) : std::next(it);
  }
  step_ = std::max(step_, started.step);
  any_formed_ = true;
  wait_for_members();
  review_checkpoints();
}

// Takes the generation over once it is clear about every member whether it is there.
void Coordinator::go_on_if_adopted() {
  if (registering_) return;
  std::vector<std::string> absent;
  bool stalled = false, whole = true;
  for (const std::string& member : generation_.members) {
    auto* const found = there_.find(member);
    if (found == nullptr) {
      whole = false;
      if (!generation_.gone.contains(member)) absent.push_back(member);
      stalled = stalled || generation_.gone.contains(member);
    } else if (found->rank < 0) {
      whole = false;  // it never got the Start
      stalled = true;
    } else if (found->parked) {
      const ParkReason reason = found->parked->reason;
      whole = whole && (reason == ParkReason::kCut || reason == ParkReason::kFinished);
      stalled = stalled || !whole;
    }
  }
  if (!absent.empty() && !planted(Bug::kAdoptWithoutWaiting)) {
    // Training may be going on without a word to anybody; only a stalled one is not worth the long wait.
    if (stalled) wait_until_ = std::min(wait_until_, now_ + config_.lost_after);
    return;
  }
  phase_ = Phase::kRunning;
  emit(Tell{str("generation ", to_text(generation_.id), " is taken over with ", generation_.members.size(),
                " trainers")});
  const GenerationId taken_over = generation_.id;
  review_checkpoints();
  if (generation_.id != taken_over || phase_ != Phase::kRunning) return;  // what was missing was a commit
  if (stop_) stop_members();
  if (!whole) abort_members();
  if (everyone_parked()) regroup();
}

bool Coordinator::fits(const std::string& worker, const TrainerReady& ready) {
  if (!any_formed_ && !there_.own_trainer_there()) {
    // Helpers that were quicker do not say what the run is like.
    if (there_.joined(worker)) return true;
    take_fingerprint(ready, false);
  }
  // Whose bits are right is decided when the first generation is formed.
  const bool fits_in = alike(ready, any_formed_);
  if (fits_in && shares_memory(ready)) return true;
  const Finish no =
      fits_in ? Finish{78, str("trainer ", ready.trainer, " on ", ready.host, " is on another machine"),
                       "--exchange shm is for one machine"}
              : unlike(ready);
  if (!any_formed_ && !config_.restarted && !there_.joined(worker))
    give_up(no);
  else
    refuse(worker, no);
  return false;
}

// With those that it would exchange with, if the run insists on that.
bool Coordinator::shares_memory(const TrainerReady& ready) const {
  if (config_.job.exchange != "shm") return true;
  return std::none_of(there_.trainers.begin(), there_.trainers.end(), [&](const auto& entry) {
    const KnownTrainer& other = entry.second;
    return (any_formed_ || !there_.joined(other.worker)) && other.ready.address.host != ready.address.host;
  });
}

void Coordinator::refuse(const std::string& worker, const Finish& why) {
  emit(Warn{str(why.line, ": it is refused")});
  emit(DismissWorker{worker, {why.exit_code, str(why.line, ": ", why.hint)}});
}

// ---- going ----

void Coordinator::lose(const std::vector<std::string>& trainers, const std::string& why) {
  bool members = false;
  for (const std::string& name : trainers) {
    const auto found = there_.trainers.find(name);
    if (found == there_.trainers.end()) continue;
    const bool member = found->second.rank >= 0;
    members = members || member;
    if (member && !ending_) emit(Warn{str("trainer ", name, " was lost at step ", step_, ": ", why)});
    there_.trainers.erase(found);
  }
  if (phase_ == Phase::kQuitting) return finish_if_quiet();
  if (members && phase_ == Phase::kRunning) abort_members();
  review_checkpoints();
  if (!members || regrouping_) return;
  if (phase_ == Phase::kAdopting) {
    // It may come again; but what it was in has hardly gone on without it.
    wait_until_ = std::min(wait_until_, now_ + config_.lost_after);
    return go_on_if_adopted();
  }
  if (phase_ == Phase::kParking && everyone_parked()) regroup();
}

// All at once: a generation that forms meanwhile must not have trainers of the next one in it.
void Coordinator::lose_workers(const std::vector<std::string>& workers, const std::string& why) {
  std::vector<std::string> lost;
  bool any = false;
  for (const std::string& worker : workers) {
    if (there_.workers.erase(worker) == 0) continue;
    any = true;
    const std::vector<std::string> own = there_.trainers_of(worker);
    lost.insert(lost.end(), own.begin(), own.end());
    emit(Warn{str("worker ", worker, " was lost: ", why)});
  }
  if (any) lose(lost, "its worker was lost");
}

void Coordinator::kill(const std::string& trainer, const std::string& why) {
  auto* const found = there_.find(trainer);
  if (found == nullptr) return;
  generation_.gone.insert(trainer);
  emit(OrderKill{found->worker, {trainer, why}});
  lose({trainer}, why);
}

void Coordinator::judge_silence() {
  const std::string why = str("no heartbeat for ", config_.lost_after.count() / 1000, " s");
  lose_workers(there_.silent_workers(now_, config_.lost_after), why);
  for (const std::string& trainer : there_.silent_trainers(now_, config_.lost_after)) kill(trainer, why);
}

void Coordinator::judge_hangs() {
  for (const std::string& name : there_.hung(now_, config_.hang_after)) {
    auto* const found = there_.find(name);
    if (found == nullptr) continue;
    kill(name,
         str("it hangs (", to_text(found->beat.phase), ") since ", config_.hang_after.count() / 1000, " s"));
  }
}

// Everybody who has not parked waits for somebody and nobody gets on: the fault is between them. Whoever
// agreed to a cut may have parked before its last words reached the others.
void Coordinator::judge_stalls() {
  std::vector<std::pair<int, int>> waits;
  for (const std::string& member : generation_.members) {
    auto* const found = there_.find(member);
    if (found == nullptr) return;
    const KnownTrainer& trainer = *found;
    if (!trainer.moving()) continue;
    if (trainer.beat.waiting_for < 0 || trainer.beat.generation != generation_.id ||
        now_ - trainer.progressed <= config_.stall_after)
      return;
    waits.emplace_back(trainer.rank, trainer.beat.waiting_for);
  }
  if (waits.empty()) return;
  emit(Warn{"every trainer waits for another one: their data links are broken"});
  bool mutual = false;
  for (const auto& [rank, other] : waits) {
    if (rank < other && std::find(waits.begin(), waits.end(), std::pair(other, rank)) != waits.end()) {
      mutual = true;
      blame(rank, other);
    }
  }
  if (!mutual) blame(waits.front().first, waits.front().second);
  if (phase_ == Phase::kRunning) abort_members();
}

// Evidence that two members cannot reach each other, though both are alive: the third time one of them goes.
void Coordinator::blame(int rank, int other) {
  if (member(rank) == nullptr || member(other) == nullptr) return;
  const std::string a = member(rank)->worker, b = member(other)->worker;
  if (a == b) return;
  const int times = faults_.links.failed(a, b);
  const auto named = [&](const std::string& worker, int r) {
    return str("worker ", worker, " on ", member(r)->ready.host);
  };
  emit(Warn{str("the data link between ", named(a, rank), " and ", named(b, other),
                " failed, though both are alive (", times, " of ", Links::kLimit, " times)")});
  if (times < Links::kLimit) return;
  const int faults_a = faults_.links.failures_of(a), faults_b = faults_.links.failures_of(b);
  const std::string out = faults_a > faults_b ? a : (faults_b > faults_a || rank < other ? b : a);
  const std::string why = str("its data links fail again and again (", a, " and ", b, ")");
  emit(Warn{str("worker ", out, " is left out: ", why)});
  faults_.links.forget(out);
  emit(DismissWorker{out, {70, why}});
  handle(WorkerLost{out, why});
}

}  // namespace rekindle::protocol
