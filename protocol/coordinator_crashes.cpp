// Trainers that are silent, hang or crash, and hosts that are excluded for it.
#include <algorithm>
#include <utility>

#include "base/planted.hpp"
#include "base/text.hpp"
#include "protocol/coordinator.hpp"

namespace rekindle::protocol {
namespace {

// The end of a run whose trainers end again and again, and never come further than `step` updates. If the
// state of this step is due to be evaluated, that is what they do next: its samples are those of the test.
Finish no_way_past(std::uint64_t step, const Job& job, const StepLog& log, const char* what,
                   const std::string& how) {
  const bool evaluates = evaluation_due(job, step) && !log.is_evaluated(step);
  const char* where = evaluates ? "in the evaluation after step " : "at step ";
  Finish finish{70, str(what, " again and again ", where, step, ": ", how)};
  if (!evaluates) finish.stuck_at = step;
  return finish;
}

}  // namespace

// A trainer ended by itself (not by SIGKILL, and not by a Quit), or it hangs. `counts` is the one of
// faults_.step_crashes and faults_.step_hangs that counts it.
void Coordinator::crashed(StepCrashes& counts, const std::string& trainer, const std::string& how) {
  auto* const found = membership_.find(trainer);
  const bool member = found != nullptr && found->rank >= 0;
  if (!member) return;
  counts.crashed(how, history_.step);
  const std::string host = found->ready.host;
  const Time forgotten = times_.now - HostCrashes::forgotten_after(config_.hang_after);
  if (!faults_.host_crashes.crashed(host, generation_.id, times_.now, forgotten,
                                    membership_.others_than(host)))
    return;
  counts.forgive();
  leave_out(host, str("trainers crash or hang on host ", host, " and nowhere else"));
}

void Coordinator::leave_out(const std::string& host, const std::string& why) {
  emit(Warn{str("host ", host, " is excluded: ", why)});
  for (const std::string& worker : membership_.workers_on(host)) {
    emit(Dismiss{config_.term, worker, 70, why});
    lose_workers({worker}, why);
  }
}

// ---- before the first generation ----

// A trainer of the run itself reports that it cannot continue. If all expected trainers are on its host, they
// have the same cause: a wrong path, or no memory. Otherwise the other hosts have to try as well.
bool Coordinator::ends_before_it_begins(const std::string& worker, const TrainerFailed& failed) {
  if (history_.any_formed || membership_.joined(worker)) return false;
  const std::string host = membership_.host_of(worker);
  const Finish error{failed.exit_code, failed.what, failed.hint, EndCause::kReported};
  faults_.start_tries.reported(host, error);
  if (failed.only_here) {
    if (faults_.start_tries.has_no_gpu(failed.trainer, host)) --config_.expected_trainers;
    return false;
  }
  if (config_.restarted || !membership_.trainers.empty() ||
      membership_.own_slots(host) < config_.expected_trainers)
    return false;
  end(error);
  return true;
}

// `refused`: exit code 64 or 78 means that the trainer cannot work there, and its worker does not try again.
void Coordinator::crashed_early(const std::string& worker, const std::string& how, bool refused) {
  if (history_.any_formed || membership_.joined(worker)) return;
  faults_.start_tries.crashed(membership_.host_of(worker), how, refused);
}

// A host is excluded when each of its slots has used its tries without success, while trainers on another
// host have started: then the fault is on that host. The run gives up when every expected slot has used its
// tries.
void Coordinator::judge_early_crashes() {
  if (history_.any_formed || stop_.ending || phase() != Phase::kGathering) return;
  const auto slots = [this](const std::string& host) { return membership_.own_slots(host); };
  std::vector<std::string> bad = faults_.start_tries.used_up(slots);
  std::erase_if(bad, [this](const std::string& host) { return membership_.own_trainer_ready_on(host); });
  const bool started_elsewhere = std::ranges::any_of(membership_.trainers, [&](const auto& entry) {
    const std::string& worker = entry.second.worker;
    return !membership_.joined(worker) && std::ranges::find(bad, membership_.host_of(worker)) == bad.end();
  });
  if (started_elsewhere && !planted(Bug::kBadHostUsesUpTheTries)) {
    for (const std::string& host : bad) {
      config_.expected_trainers -= membership_.own_slots(host) - faults_.start_tries.slots_without_gpu(host);
      leave_out(host, str("trainers cannot start on this host, but they start on other hosts: ",
                          faults_.start_tries.take_out(host)));
    }
    return;
  }
  if (!config_.restarted && faults_.start_tries.all_used_up(slots, config_.expected_trainers))
    end(faults_.start_tries.end(EndCause::kNotStarted, "trainers end before training begins"));
}

// ---- silent, and without progress ----

void Coordinator::judge_silence() {
  const Time limit = faults_.silence.after(config_.lost_after, config_.hang_after);
  const std::string why = str("no heartbeat for ", limit.count() / 1000, " s");
  const std::vector<std::string> workers = membership_.silent_workers(times_.now, limit);
  lose_workers(workers, why);
  const std::vector<std::string> trainers = membership_.silent_trainers(times_.now, limit);
  for (const std::string& trainer : trainers) kill(trainer, KillCause::kSilent, why);
  if ((workers.empty() && trainers.empty()) || !faults_.silence.lost_at(history_.step, times_.now, limit))
    return;
  const Time longer = faults_.silence.after(config_.lost_after, config_.hang_after);
  if (longer > limit)
    emit(Warn{str("lost again before a step was made: from now on after ", longer.count() / 1000,
                  " s without a heartbeat. Is the machine overloaded? See --lost-after")});
}

// NCCL shows no progress while it connects, and names nobody. Where it finds no way between two GPUs, or a
// firewall is between two nodes, all members hang, and none is at fault: whoever cannot pause then is killed.
bool Coordinator::nccl_hangs_while_connecting() {
  const Time limit = std::max(config_.hang_after / 5, std::min(config_.hang_after, config_.stall_after));
  bool any = false;
  for (const std::string& name : generation_.members) {
    const KnownTrainer* const trainer = membership_.find(name);
    if (trainer == nullptr) return false;
    if (!trainer->moving()) continue;
    any = true;
    if (trainer->beat.phase != TrainerPhase::kConnecting || trainer->beat.waiting_for >= 0 ||
        trainer->beat.generation != generation_.id)
      return false;
    if (phase_.running() && times_.now - trainer->progressed <= limit) return false;
  }
  if (!any || !nccl_could_serve() || without_nccl()) return false;
  if (phase_.running()) {
    exchange_failed(str("NCCL does not connect the trainers: no progress for ", limit.count() / 1000, " s"));
    phase_.break_off();
  }
  return true;
}

void Coordinator::judge_hangs() {
  if (nccl_hangs_while_connecting()) return;
  for (const std::string& name : membership_.hung(times_.now, config_.hang_after)) {
    auto* const found = membership_.find(name);
    if (found == nullptr) continue;
    const std::string why = str("it hangs (", to_text(found->beat.phase), "): no progress for ",
                                config_.hang_after.count() / 1000, " s");
    crashed(faults_.step_hangs, name, str("trainer ", name, " of ", found->worker, ": ", why));
    kill(name, KillCause::kHangs, why);
  }
}

// ---- killed, and at a step ----

void Coordinator::killed(const std::string& trainer) {
  const auto step = faults_.kills.killed(trainer, history_.step, config_.expected_trainers);
  if (!step) return;
  Finish finish = no_way_past(*step, config_.job, log_, "trainers are killed", "is there enough memory?");
  finish.hint = resume_hint();
  end(finish);
}

// ---- exchanges ----

// `link`: as in Generation::suspect_link.
void Coordinator::judge_exchange(std::pair<int, int> link) {
  const KnownTrainer* without_peer = nullptr;
  bool explained = false;  // by the death of a member, or because it left for a reason of its own
  for (int rank = 0; rank < static_cast<int>(generation_.members.size()); ++rank) {
    const KnownTrainer* const each = member(rank);
    explained = explained || each == nullptr || left_by_itself(rank);
    if (each != nullptr && each->paused && each->paused->reason == PauseReason::kExchangeFailed &&
        each->paused->peer < 0 && without_peer == nullptr)
      without_peer = each;
  }
  // The links of a trainer that left for an error without a peer are not at fault.
  if (without_peer != nullptr) {
    const TrainerReady& ready = without_peer->ready;
    if (!explained && !planted(Bug::kFailuresOfNcclNotCounted))
      exchange_failed(str("trainer ", ready.trainer, " on ", ready.host, ": ", without_peer->paused->detail));
    return;
  }
  // If both ends are alive, the link itself failed.
  if (member(link.first) == nullptr || member(link.second) == nullptr || left_by_itself(link.second)) return;
  blame(link.first, link.second);
  times_.hold_until =
      times_.now + config_.link_pause;  // distinguishes a short interruption from a broken link
}

// Most often a fault of NCCL, which comes again in each generation: it finds too little shared memory, or no
// way between two GPUs.
void Coordinator::exchange_failed(const std::string& what) {
  const int times = faults_.exchanges.failed();
  if (times == 1) emit(Warn{str("the exchange of gradients failed, and is tried again: ", what)});
  faults_.step_exchanges.crashed(what, history_.step);
  constexpr int kMostDoublings = 5;
  times_.hold_until = times_.now + config_.link_pause * (1 << std::min(times - 1, kMostDoublings));
  if (times >= FailedExchanges::kTriesOfNccl && config_.job.exchange == "auto" && nccl_could_serve())
    faults_.exchanges.give_up_nccl();
}

// Called once for each generation that has ended.
void Coordinator::judge_crashes() {
  const auto judge = [this](StepCrashes& counts, EndCause cause, const char* what) {
    const auto stuck = counts.generation_ended(generation_.began, history_.step);
    if (!stuck || stop_.ending) return;
    Finish finish = no_way_past(stuck->step, config_.job, log_, what, stuck->how);
    finish.hint = resume_hint();
    finish.cause = cause;
    // The members have a state, and saving it needs less of the exchange than a step. Once.
    const bool saves = cause == EndCause::kExchangeFails && !stop_;
    if (!saves) return end(finish);
    stop_.ask(StopRun{finish.exit_code, finish.line, Time(0)}, times_.now);
    stop_.cause = StopCause::kExchangeFails;
  };
  judge(faults_.step_crashes, EndCause::kCrashes, "trainers crash");
  judge(faults_.step_hangs, EndCause::kHangs, "trainers hang");
  judge(faults_.step_exchanges, EndCause::kExchangeFails, "an exchange fails");
}

}  // namespace rekindle::protocol
