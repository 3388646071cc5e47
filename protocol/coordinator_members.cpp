// Registration and loss of workers and trainers.
#include <algorithm>
#include <csignal>
#include <utility>

#include "base/planted.hpp"
#include "base/text.hpp"
#include "protocol/coordinator.hpp"

namespace rekindle::protocol {

// ---- registration ----

void Coordinator::admit(const std::string& worker, const TrainerState& state) {
  // The fingerprint of a running generation has priority over a joining trainer that registered first.
  if (history_.own_generations == 0 && state.started && state.started->generation > generation_.id)
    take_fingerprint(state.ready, true);
  if (!fits(worker, state.ready)) return;
  const std::string& name = state.ready.trainer;
  generation_.gone.erase(name);  // the trainer was only silent
  const bool paused = state.parked && state.started && state.parked->generation == state.started->generation;
  const bool member = state.started && belongs(state);
  if (state.started && !member && !paused) {
    // The trainer is still in a generation that has ended for the others. Its state must never be a source,
    // and isolated peers may read its memory: the worker starts a new trainer instead.
    emit(KillTrainer{config_.term, worker, name,
                     str("generation ", to_text(state.started->generation), " has ended without it")});
    return lose({name}, "it was in an older generation");
  }
  const std::optional<Paused> source = member ? std::nullopt : waiting_source(name, state.parked);
  // The trainer never received the newest Start: the generation cannot begin with it.
  if (auto* const known = membership_.find(name); known != nullptr && known->rank >= 0 && !member && !source)
    lose({name}, "the connection broke before its Start arrived");
  KnownTrainer& trainer = membership_.trainers[name];
  trainer.worker = worker;
  trainer.ready = state.ready;
  trainer.last_seen = trainer.progressed = times_.now;
  trainer.beat = state.beat;
  trainer.peak_pss_bytes = std::max(trainer.peak_pss_bytes, state.beat.peak_pss_bytes);
  trainer.rank = -1;
  trainer.paused.reset();
  trainer.writing.reset();
  trainer.wrote.reset();
  if (member) {
    trainer.rank = state.started->rank;
    if (paused) trainer.paused = state.parked;
    // Messages that were in flight when the connection broke are lost.
    if (!paused && stop_) send(name, Stop{generation_.id});
    if (!paused && phase() == Phase::kPausing) send(name, Abort{generation_.id});
  } else if (source) {
    trainer.rank = generation_.rank_of(name);
    trainer.paused = source;
    phase_.break_off();
  }
  replay(state);
}

// A source that never received its Start is still paused with the step from which the generation began, and
// may be the only trainer with that state.
std::optional<Paused> Coordinator::waiting_source(const std::string& trainer,
                                                  const std::optional<Paused>& paused) const {
  if (!paused || !paused->holds || paused->held_step != generation_.began ||
      paused->generation >= generation_.id || !generation_.sources.contains(trainer))
    return std::nullopt;
  return Paused{generation_.id,        trainer, true, generation_.began,
                PauseReason::kAborted, -1,      {},   "its Start never arrived"};
}

const KnownTrainer* Coordinator::member(int rank) const {
  const std::string* const name = generation_.member(rank);
  return name == nullptr ? nullptr : membership_.find(*name);
}

// Whether the trainer is a member of generation_.id. A coordinator without a generation of its own adopts the
// newest one that is reported.
bool Coordinator::belongs(const TrainerState& state) {
  const GenerationId& id = state.started->generation;
  if (history_.own_generations == 0 && id > generation_.id &&
      (phase() == Phase::kGathering || phase() == Phase::kAdopting))
    adopt(*state.started);
  if (id != generation_.id || !generation_.has(state.ready.trainer, state.started->rank) ||
      generation_.gone.contains(state.ready.trainer))
    return false;
  // The connections broke, and no generation has been formed since: the generation may still be running, with
  // the newest state.
  if (!phase_.adopting()) phase_.adopt(times_.now + config_.adopt_time);
  return phase_.adopting() || phase_.pausing() || membership_.trainers.contains(state.ready.trainer);
}

void Coordinator::adopt(const Start& started) {
  Generation taken{
      .id = started.generation, .members = {}, .sources = {}, .began = started.step, .saves = started.stop};
  for (const Member& member : started.members) taken.members.push_back(member.trainer);
  for (const int rank : started.sources) {
    if (const std::string* source = taken.member(rank)) taken.sources.insert(*source);
  }
  generation_ = std::move(taken);
  history_.past.remember(generation_);
  ledger_.restore.take_over(started.restore, started.verified);
  if (started.without_nccl && !started.stop) faults_.exchanges.give_up_nccl();
  for (auto it = membership_.trainers.begin(); it != membership_.trainers.end();) {
    auto& [name, trainer] = *it;
    const bool moving = trainer.moving();
    trainer.paused = waiting_source(name, trainer.paused);
    trainer.rank = trainer.paused ? generation_.rank_of(name) : -1;
    if (moving) emit(KillTrainer{config_.term, trainer.worker, name, "it is in an older generation"});
    it = moving ? membership_.trainers.erase(it) : std::next(it);
  }
  history_.step = std::max(history_.step, started.step);
  history_.any_formed = true;
  times_.gather_until.reset();
  phase_.adopt(times_.now + config_.adopt_time);
}

// Adopts the generation when it is certain for each member whether the member is still alive.
void Coordinator::go_on_if_adopted() {
  std::vector<std::string> absent;
  bool stalled = false, complete = true;
  for (const std::string& member : generation_.members) {
    auto* const found = membership_.find(member);
    if (found == nullptr) {
      complete = false;
      if (!generation_.gone.contains(member)) absent.push_back(member);
      stalled = stalled || generation_.gone.contains(member);
    } else if (found->rank < 0) {
      complete = false;  // the trainer never received the Start
      stalled = true;
    } else if (found->paused) {
      const PauseReason reason = found->paused->reason;
      complete = complete && (reason == PauseReason::kAgreed || reason == PauseReason::kFinished);
      stalled = stalled || !complete;
    }
  }
  if (!absent.empty() && !planted(Bug::kAdoptWithoutWaiting)) {
    // Training may continue without a message; only a stalled generation is not worth the long wait.
    if (stalled) phase_.hurry_adoption(times_.now + config_.lost_after);
    return;
  }
  phase_.enter(RunningPhase{.judged = false, .broken = !complete});
  if (complete) times_.gather_until.reset();
  emit(Info{str("generation ", to_text(generation_.id), " is taken over with ",
                counted(generation_.members.size(), "trainer"))});
  if (stop_) stop_members();
}

bool Coordinator::fits(const std::string& worker, const TrainerReady& ready) {
  if (!history_.any_formed && !membership_.own_trainer_there()) {
    // Joined trainers that registered first do not determine the fingerprint of the run.
    if (membership_.joined(worker)) return true;
    take_fingerprint(ready, false);
  }
  // The bits of the run are chosen when the first generation is formed.
  const bool fits_in = same_fingerprint(ready, history_.any_formed);
  if (fits_in && shares_memory(ready)) return true;
  const Finish no =
      fits_in ? Finish{78, str("trainer ", ready.trainer, " on ", ready.host, " is on another machine"),
                       "--exchange shm is for one machine"}
              : mismatch(ready);
  if (!history_.any_formed && !config_.restarted && !membership_.joined(worker))
    end(no);
  else
    refuse(worker, no);
  return false;
}

// Whether the trainer shares memory with all its peers; only required for --exchange shm.
bool Coordinator::shares_memory(const TrainerReady& ready) const {
  if (config_.job.exchange != "shm") return true;
  return std::none_of(membership_.trainers.begin(), membership_.trainers.end(), [&](const auto& entry) {
    const KnownTrainer& other = entry.second;
    return (history_.any_formed || !membership_.joined(other.worker)) &&
           other.ready.address.host != ready.address.host;
  });
}

void Coordinator::refuse(const std::string& worker, const Finish& why) {
  emit(Warn{str(why.line, ": its worker is refused")});
  emit(Dismiss{config_.term, worker, why.exit_code, str(why.line, ": ", why.hint)});
}

// ---- loss ----

void Coordinator::lose(const std::vector<std::string>& trainers, const std::string& why) {
  bool members = false;
  for (const std::string& name : trainers) {
    const auto found = membership_.trainers.find(name);
    if (found == membership_.trainers.end()) continue;
    const bool member = found->second.rank >= 0;
    members = members || member;
    if (member && !stop_.ending) {
      emit(Warn{str("trainer ", name, " was lost at step ", history_.step, ": ", why)});
      emit(RecordLoss{name, found->second.ready.host, why});
    }
    membership_.trainers.erase(found);
  }
  if (!members) return;
  phase_.break_off();
  // The trainer may register again, but its generation has hardly continued without it.
  phase_.hurry_adoption(times_.now + config_.lost_after);
}

// All workers are removed before any conclusion is drawn: a generation formed in between must not contain
// trainers of another lost worker.
void Coordinator::lose_workers(const std::vector<std::string>& workers, const std::string& why) {
  std::vector<std::string> lost;
  bool any = false;
  for (const std::string& worker : workers) {
    if (membership_.workers.erase(worker) == 0) continue;
    any = true;
    const std::vector<std::string> own = membership_.trainers_of(worker);
    lost.insert(lost.end(), own.begin(), own.end());
    emit(Warn{str("worker ", worker, " was lost: ", why)});
  }
  if (any) lose(lost, "its worker was lost");
}

void Coordinator::kill(const std::string& trainer, KillCause cause, const std::string& why) {
  auto* const found = membership_.find(trainer);
  if (found == nullptr) return;
  generation_.gone.insert(trainer);
  if (cause == KillCause::kHangs || cause == KillCause::kWrites) faults_.kills.ordered(trainer);
  emit(KillTrainer{config_.term, found->worker, trainer, why, cause});
  lose({trainer}, why);
}

// Every member that has not paused waits for another one, and none makes progress: the fault is between them.
// A member that agreed to pause may have paused before its last messages reached its peers.
void Coordinator::judge_stalls() {
  if (!phase_.running()) return;
  std::vector<std::pair<int, int>> waits;
  for (const std::string& member : generation_.members) {
    auto* const found = membership_.find(member);
    if (found == nullptr) return;
    const KnownTrainer& trainer = *found;
    if (!trainer.moving()) continue;
    if (trainer.beat.waiting_for < 0 || trainer.beat.generation != generation_.id ||
        times_.now - trainer.progressed <= config_.stall_after)
      return;
    waits.emplace_back(trainer.rank, trainer.beat.waiting_for);
  }
  if (waits.empty()) return;
  if (std::ranges::any_of(waits, [](const auto& wait) { return wait.first == wait.second; })) {
    exchange_failed(str("every trainer waits in NCCL, for ", config_.stall_after.count() / 1000, " s"));
    return phase_.break_off();
  }
  emit(Warn{"every trainer waits for another one: their data links are broken"});
  bool mutual = false;
  for (const auto& [rank, other] : waits) {
    if (rank < other && std::find(waits.begin(), waits.end(), std::pair(other, rank)) != waits.end()) {
      mutual = true;
      blame(rank, other);
    }
  }
  if (!mutual) blame(waits.front().first, waits.front().second);
  phase_.break_off();
}

// Counts a failed link between two members that are both alive. At the third failure one of them is excluded.
// Trainers of one worker share a machine: if they cannot exchange data, no other choice of workers helps.
void Coordinator::blame(int rank, int other) {
  if (member(rank) == nullptr || member(other) == nullptr) return;
  const std::string a = member(rank)->worker, b = member(other)->worker;
  if (a == b) {
    const std::string what =
        str("trainers ", member(rank)->ready.trainer, " and ", member(other)->ready.trainer, " on ",
            member(rank)->ready.host, " cannot exchange data, though both are alive");
    emit(Warn{what});
    return faults_.step_exchanges.crashed(what, history_.step);
  }
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
  emit(Warn{str("worker ", out, " is excluded: ", why)});
  faults_.links.forget(out);
  emit(Dismiss{config_.term, out, 70, why});
  lose_workers({out}, why);
}

}  // namespace rekindle::protocol
