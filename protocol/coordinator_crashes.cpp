// Trainers that end by themselves, and hosts that are left out because of them.
#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "protocol/coordinator.hpp"
#include "protocol/planted.hpp"

namespace rekindle::protocol {

// A trainer ended by itself: not killed from outside, not told to.
void Coordinator::crashed(const std::string& worker, const std::string& trainer, const std::string& how) {
  auto* const found = there_.find(trainer);
  const bool member = found != nullptr && found->rank >= 0;
  if (!member) return;
  faults_.step_crashes.crashed(how, step_);
  const std::string host = found->ready.host;
  if (!faults_.host_crashes.crashed(host, there_.others_than(host))) return;
  faults_.step_crashes.forgive();
  leave_out(host, str("trainers crash on host ", host, " and nowhere else"));
}

void Coordinator::leave_out(const std::string& host, const std::string& why) {
  emit(Warn{str("host ", host, " is left out: ", why)});
  for (const std::string& worker : there_.workers_on(host)) {
    emit(DismissWorker{worker, {70, why}});
    handle(WorkerLost{worker, why});
  }
}

// ---- before the first generation ----

// One of the run's own trainers says that it cannot go on. Where all of them are expected on its host, it is
// the same for all: a wrong path, a full memory. Otherwise the other hosts have to try, too.
bool Coordinator::ends_before_it_begins(const std::string& worker, const TrainerFailed& failed) {
  if (any_formed_ || there_.joined(worker)) return false;
  const std::string host = there_.host_of(worker);
  const Finish words{failed.exit_code, failed.what, failed.hint};
  faults_.start_tries.said(host, words);
  if (config_.restarted || !there_.trainers.empty() || there_.own_slots(host) < config_.expected_trainers)
    return false;
  give_up(words);
  return true;
}

// `refused`: it said that it cannot work there (exit code 64 or 78), so its worker does not try again.
void Coordinator::crashed_early(const std::string& worker, const std::string& how, bool refused) {
  if (any_formed_ || there_.joined(worker)) return;
  faults_.start_tries.crashed(there_.host_of(worker), how, refused);
}

// A host is left out when each of its slots has had its tries and none has succeeded, while trainers have
// come up on another host: then it is that host's fault. The run gives up when every expected slot has had
// its tries.
void Coordinator::judge_early_crashes() {
  if (any_formed_ || ending_ || phase_ != Phase::kGathering) return;
  const auto slots = [this](const std::string& host) { return there_.own_slots(host); };
  std::vector<std::string> bad = faults_.start_tries.used_up(slots);
  std::erase_if(bad, [this](const std::string& host) { return there_.own_trainer_ready_on(host); });
  const bool started_elsewhere = std::ranges::any_of(there_.trainers, [&](const auto& entry) {
    const std::string& worker = entry.second.worker;
    return !there_.joined(worker) && std::ranges::find(bad, there_.host_of(worker)) == bad.end();
  });
  if (started_elsewhere && !planted(Bug::kBadHostUsesUpTheTries)) {
    for (const std::string& host : bad) {
      config_.expected_trainers -= there_.own_slots(host);
      leave_out(host, str("trainers cannot start on this host, but they start on other hosts: ",
                          faults_.start_tries.take_out(host)));
    }
    if (!bad.empty()) form_if_possible();
    return;
  }
  if (!config_.restarted && faults_.start_tries.all_used_up(slots, config_.expected_trainers))
    give_up(faults_.start_tries.end("trainers end before training begins"));
}

// ---- killed, and at a step ----

void Coordinator::killed() {
  const auto step = faults_.kills.killed(step_, config_.expected_trainers);
  if (!step) return;
  Finish finish{70, str("trainers are killed again and again at step ", *step, ": is there enough memory?"),
                resume_hint()};
  finish.stuck_at = step;
  give_up(finish);
}

// Called once for each generation that has ended.
void Coordinator::judge_crashes() {
  const auto stuck = faults_.step_crashes.generation_ended(generation_.began, step_);
  if (!stuck) return;
  Finish finish{70, str("trainers crash again and again at step ", stuck->step, ": ", stuck->how),
                resume_hint()};
  finish.stuck_at = stuck->step;
  give_up(finish);
}

}  // namespace rekindle::protocol
