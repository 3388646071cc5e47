// The end of a generation: its members pause, and their reports decide from which state the run continues.
#include <algorithm>
#include <utility>

#include "base/planted.hpp"
#include "base/text.hpp"
#include "protocol/coordinator.hpp"

namespace rekindle::protocol {

void Coordinator::pause_members() {
  phase_.enter(PausingPhase{times_.now + config_.pause_deadline});
  for (const std::string& member : generation_.members) {
    auto* const found = membership_.find(member);
    if (found != nullptr && found->moving()) send(member, Abort{generation_.id});
  }
}

// Members that write or update cannot pause: judge_writers() and judge_hangs() find those that hang. An
// update of a large state may take longer than the deadline; after it, the member has the same time again. A
// stop with a limit does not wait for an update if a member that has paused has a state to write.
void Coordinator::judge_pauses() {
  bool updates = false;
  const bool hurries =
      stop_.until > Time(0) && std::ranges::any_of(generation_.members, [this](const std::string& name) {
        const auto* const found = membership_.find(name);
        return found != nullptr && found->paused && found->paused->holds;
      });
  for (const std::string& member : std::vector(generation_.members)) {
    auto* const found = membership_.find(member);
    if (found == nullptr || !found->moving() || found->waits_for_its_write()) continue;
    const bool waited_for = found->updates() && !hurries;
    updates = updates || waited_for;
    if (!waited_for) kill(member, KillCause::kDoesNotPause, "it did not pause in time");
  }
  if (updates) phase_.postpone(config_.pause_deadline);
}

bool Coordinator::everyone_paused() const {
  if (planted(Bug::kUnpausedSource)) {
    return std::any_of(generation_.members.begin(), generation_.members.end(),
                       [this](const std::string& member) {
                         auto* const found = membership_.find(member);
                         return found != nullptr && found->paused;
                       });
  }
  return !generation_.moving.any(generation_.members.size(), [this](std::size_t rank) {
    auto* const found = membership_.find(generation_.members[rank]);
    return found != nullptr && found->moving();
  });
}

// All members of the generation have paused or are gone: decide what comes next.
void Coordinator::regroup() {
  if (stop_.ending) return quit_all();
  if (!phase_.judge()) {  // once; advance() calls again
    judge_generation();
    judge_crashes();
    return;
  }
  if (!try_end()) form_if_possible();
}

// Whether a member paused for a reason of its own. Its links end because of that, and are not at fault.
bool Coordinator::left_by_itself(int rank) const {
  const KnownTrainer* const trainer = member(rank);
  if (trainer == nullptr || !trainer->paused) return false;
  switch (trainer->paused->reason) {
    case PauseReason::kAgreed:  // its last messages may not have reached its peers
    case PauseReason::kFinished:
    case PauseReason::kAborted:
    case PauseReason::kExchangeFailed:
    case PauseReason::kDataAltered:
      return false;
    default:
      return true;
  }
}

// Evaluates the reports of the members that paused.
void Coordinator::judge_generation() {
  judge_samples();
  bool differ = false;
  std::vector<std::string> suspects;
  std::optional<std::string> restore_error, read_error;
  for (const std::string& member : generation_.members) {
    auto* const found = membership_.find(member);
    if (found == nullptr || !found->paused) continue;
    const Paused& paused = *found->paused;
    if (paused.reason == PauseReason::kNonFinite)
      return end({70, paused.detail,
                  str("lower --lr (with --change-lr), or look at the data; ", resume_hint()),
                  EndCause::kNotFinite});
    if (paused.reason == PauseReason::kUnsuitable) return end({78, paused.detail, ""});
    if (paused.reason == PauseReason::kRestoreFailed) restore_error = paused.detail;
    if (paused.reason == PauseReason::kUnreadable) read_error = paused.detail;
    if (paused.reason == PauseReason::kStatesDiffer) {
      differ = true;
      suspects.clear();
      for (const int rank : paused.differing)
        if (const std::string* suspect = generation_.member(rank)) suspects.push_back(*suspect);
    }
  }
  if (const auto link = std::exchange(generation_.suspect_link, std::nullopt)) judge_exchange(*link);
  // Trainers that reconnect before the next generation report the same failure again. That is neither a
  // further try nor another fault.
  if ((read_error || restore_error) && ledger_.restore.failed_in(generation_.id))
    read_error ? restore_unreadable(*read_error) : restore_failed(*restore_error);
  if (differ && !ledger_.suspect.is_about(generation_.id)) states_differ(suspects);
}

// Samples that one worker cannot use may be intact for the others: each has its own storage, cache or mount.
// The run ends only if no other worker is left to try. Otherwise the worker is left out, once another worker
// has the state.
void Coordinator::judge_samples() {
  const auto about_samples = [](PauseReason reason) {
    return reason == PauseReason::kSamplesUnusable || reason == PauseReason::kSamplesUnreadable;
  };
  std::map<std::string, KnownTrainer> reports;  // the first one of each worker
  for (const std::string& member : generation_.members) {
    const auto* const found = membership_.find(member);
    if (found != nullptr && found->paused && about_samples(found->paused->reason))
      reports.emplace(found->worker, *found);
  }
  if (reports.empty()) return;
  bool again = false;
  std::uint64_t step = 0;
  const KnownTrainer* worst = nullptr;
  for (const auto& [worker, trainer] : reports) {
    again = faults_.samples.reported(worker, generation_.id) || again;
    step = std::max(step, trainer.paused->held_step);
    const bool unreadable = trainer.paused->reason == PauseReason::kSamplesUnreadable;
    if (worst == nullptr || !unreadable) worst = &trainer;
    if (unreadable && stop_) continue;  // the stop ended its wait
    emit(Warn{str("worker ", worker, " on host ", trainer.ready.host, " cannot go on from step ",
                  trainer.paused->held_step, ": ", trainer.paused->detail)});
  }
  if (stop_) return;
  std::size_t others = 0;
  bool state_elsewhere = false;
  for (const auto& [name, trainer] : membership_.trainers) {
    if (reports.contains(trainer.worker)) continue;
    ++others;
    state_elsewhere =
        state_elsewhere || (trainer.paused && trainer.paused->holds && trainer.paused->held_step >= step);
  }
  const bool enough = others > 0 && others >= config_.job.min_trainers;
  // Storage that is away for all would cost one worker after the other.
  if (!enough || (!state_elsewhere && again) || generation_.storage_away) return end_for_samples(*worst);
  if (!state_elsewhere) return;  // the next generation copies the state to the other workers
  for (const auto& [worker, trainer] : reports) leave_out_for_samples(worker, trainer);
}

void Coordinator::leave_out_for_samples(const std::string& worker, const KnownTrainer& trainer) {
  const std::string why = str("worker ", worker, " on host ", trainer.ready.host,
                              " is left out, because samples cannot be used there: ", trainer.paused->detail);
  emit(Warn{str("worker ", worker, " on host ", trainer.ready.host,
                " is left out, and the run goes on without it: other workers try these samples")});
  faults_.samples.leave_out(worker, why);
  emit(Dismiss{config_.term, worker, 78, why});
  lose_workers({worker}, "its samples cannot be used");
}

// No worker that is left can use the samples. The state is written, and the run ends. If they cannot be read,
// another attempt may go on.
void Coordinator::end_for_samples(const KnownTrainer& trainer) {
  const bool unreadable = trainer.paused->reason == PauseReason::kSamplesUnreadable;
  const StopRun stop{unreadable ? 75 : 78, str("on host ", trainer.ready.host, ": ", trainer.paused->detail),
                     Time(0)};
  if (stop_.ask(stop, times_.now))
    stop_.cause = unreadable ? StopCause::kSamplesUnreadable : StopCause::kSamplesUnusable;
}

// The first wrong step is unknown, so a checkpoint may still be committed if its shards agree.
void Coordinator::states_differ(const std::vector<std::string>& suspects) {
  ledger_.suspect.raise(generation_.id, std::numeric_limits<std::uint64_t>::max());
  const Restorable* const newest = ledger_.committed.newest();
  const std::uint64_t saved = newest == nullptr ? 0 : newest->step;
  if (faults_.odd_states.without_progress(saved))
    return end({70,
                str("the trainers' states differ again and again: ", OddStates::kMostRollbacks,
                    " times since step ", saved, " was saved, last at step ", history_.step),
                "something that is computed is not the same each time, or a machine computes wrong bits"});
  roll_back(suspects, str("the trainers' states differ at step ", history_.step));
}

// A trainer with a valid state after a restore has read the checkpoint completely, and it was correct. Then
// files left by killed attempts are no longer needed; they may take the disk space of the next checkpoint.
void Coordinator::went_on() {
  if (!ledger_.restore.went_on() || ledger_.open.any_older_than(generation_.id)) return;
  emit(Sweep{ledger_.restore.checkpoint(), generation_.id});
}

// An outage of the storage or a device error must not cost checkpoints: the restore is tried again, and a
// checkpoint that cannot be read stays in place.
void Coordinator::restore_unreadable(const std::string& why) {
  const Restorable* const found = ledger_.committed.find(ledger_.restore.checkpoint());
  if (found == nullptr) return;
  const std::string bad = found->checkpoint;
  if (const auto pause = ledger_.restore.try_again()) {
    times_.hold_until = times_.now + *pause;
    return emit(
        Warn{str("checkpoint ", bad, " could not be restored (", why, "); the restore is tried again")});
  }
  if (ledger_.committed.count() == 1)
    return end(
        {70, str("checkpoint ", bad, " cannot be restored: ", why),
         str("fix this, then ", launched_by_slurm(config_.job) ? "submit the job" : "run the same command",
             " again: no checkpoint was touched"),
         EndCause::kNotRestored});
  emit(Warn{str("checkpoint ", bad, " cannot be restored (", why,
                "); the checkpoint stays in place, and the previous one is used")});
  ledger_.committed.remove(bad);
}

void Coordinator::restore_failed(const std::string& why) {
  const Restorable* const found = ledger_.committed.find(ledger_.restore.checkpoint());
  if (found == nullptr) return;
  const std::string bad = found->checkpoint;
  std::set<std::string> hosts;
  for (const std::string& member : generation_.members) {
    if (auto* const found = membership_.find(member)) hosts.insert(found->ready.host);
  }
  if (ledger_.restore.let_others_try(hosts.size()))
    return emit(Warn{str("checkpoint ", bad, " could not be restored (", why, "); other nodes try")});
  emit(Warn{str("checkpoint ", bad, " is damaged (", why,
                "); the checkpoint is set aside, and the previous one is used")});
  emit(SetAside{bad});
  ledger_.committed.remove(bad);
  ledger_.restore.set_aside();
  if (ledger_.committed.count() == 0)
    emit(Warn{"no intact checkpoint of this run is left: the run begins again with its initial values"});
}

// The replicas differ: no state in memory can be trusted.
void Coordinator::roll_back(const std::vector<std::string>& suspects, const std::string& what) {
  std::string who = suspects.empty() ? "no majority says which is wrong" : "";
  std::vector<std::string> out;
  for (const std::string& name : suspects) {
    auto* const found = membership_.find(name);
    if (found == nullptr) continue;
    who += str(who.empty() ? "" : ", ", name, " on host ", found->ready.host, " differs");
    if (faults_.odd_states.differed(name)) out.push_back(name);
  }
  emit(Warn{str(what, " (", who, "); suspect a hardware fault. The run goes back to its newest checkpoint"),
            WarnAbout::kStatesDiffer});
  for (const std::string& name : out) {
    emit(Warn{str("trainer ", name, " has differed ", OddStates::kLimit, " times: it is replaced")});
    emit(KillTrainer{config_.term, membership_.trainers.at(name).worker, name,
                     "its state differed from the others' again and again"});
    generation_.gone.insert(name);
    membership_.trainers.erase(name);
  }
}

}  // namespace rekindle::protocol
