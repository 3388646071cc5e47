// Trainers that end by themselves, and hosts that are left out because of them.
#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "protocol/coordinator.hpp"
#include "protocol/planted.hpp"

namespace rekindle::protocol {

namespace {
constexpr int kCrashLimit = 3;      // generations in a row that crash at one step
constexpr int kKillLimit = 20;      // kills of each trainer's, on average, while no step is made
constexpr int kHostCrashLimit = 3;  // crashes on one host while no other host has any
constexpr int kStartTries = 3;      // of each slot, before the first generation
}  // namespace

// A trainer ended by itself: not killed from outside, not told to.
void Coordinator::crashed(const std::string& worker, const std::string& trainer, const std::string& how) {
  const auto found = trainers_.find(trainer);
  const bool member = found != trainers_.end() && found->second.rank >= 0;
  if (!member) return;
  if (planted(Bug::kCrashesCountedPerTrainer) && crash_step_ && step_ <= *crash_step_) ++crashes_;
  crash_ = how;
  const std::string host = found->second.ready.host;
  ++host_crashes_[host];
  bool others_crash = false, others_there = false;
  for (const auto& [name, count] : host_crashes_) others_crash = others_crash || name != host;
  for (const auto& [name, worker] : workers_) others_there = others_there || worker.host != host;
  if (host_crashes_[host] < kHostCrashLimit || others_crash || !others_there) return;
  crash_.clear();  // the host's fault, not the step's
  leave_out(host, str("trainers crash on host ", host, " and nowhere else"));
}

void Coordinator::leave_out(const std::string& host, const std::string& why) {
  emit(Warn{str("host ", host, " is left out: ", why)});
  std::vector<std::string> workers;
  for (const auto& [name, worker] : workers_) {
    if (worker.host == host) workers.push_back(name);
  }
  for (const std::string& worker : workers) {
    emit(DismissWorker{worker, {70, why}});
    handle(WorkerLost{worker, why});
  }
}

// ---- before the first generation ----

std::string Coordinator::host_of(const std::string& worker) const {
  const auto found = workers_.find(worker);
  return found == workers_.end() ? "" : found->second.host;
}

int Coordinator::own_slots(const std::string& host) const {
  int slots = 0;
  for (const auto& [name, worker] : workers_) {
    if (worker.host == host && !worker.joined) slots += worker.slots;
  }
  return slots;
}

bool Coordinator::own_trainer_ready_on(const std::string& host) const {
  return std::any_of(trainers_.begin(), trainers_.end(), [&](const auto& entry) {
    return host_of(entry.second.worker) == host && !joined(entry.second.worker);
  });
}

// One of the run's own trainers says that it cannot go on. Where all of them are expected on its host, it is
// the same for all: a wrong path, a full memory. Otherwise the other hosts have to try, too.
bool Coordinator::ends_before_it_begins(const std::string& worker, const TrainerFailed& failed) {
  if (any_formed_ || joined(worker)) return false;
  const std::string host = host_of(worker);
  early_[host].said = Finish{failed.exit_code, failed.what, failed.hint};
  if (config_.restarted || !trainers_.empty() || own_slots(host) < config_.expected_trainers) return false;
  give_up(*early_[host].said);
  return true;
}

// `refused`: it said that it cannot work there (exit code 64 or 78), so its worker does not try again.
void Coordinator::crashed_early(const std::string& worker, const std::string& how, bool refused) {
  if (any_formed_ || joined(worker)) return;
  EarlyCrashes& crashes = early_[host_of(worker)];
  crashes.count += refused ? kStartTries : 1;
  crashes.how = how;
}

// What a person needs to know: the words of a trainer that could speak, else how one ended.
Finish Coordinator::early_end(const std::string& what) const {
  Finish finish{70, what, "look at logs/ in the run directory"};
  for (const auto& [host, crashes] : early_) {
    if (crashes.said)
      return {crashes.said->exit_code, str(what, ": ", crashes.said->line), crashes.said->hint};
    if (!crashes.how.empty()) finish.line = str(what, ": ", crashes.how);
  }
  return finish;
}

// A host is left out when each of its slots has had its tries and none has succeeded, while trainers have
// come up on another host: then it is that host's fault. The run gives up when every expected slot has had
// its tries. A crash beyond a host's tries does not count, so that a bad host, which is quick to crash, does
// not use up what the others need.
void Coordinator::judge_early_crashes() {
  if (any_formed_ || ending_ || phase_ != Phase::kGathering) return;
  std::vector<std::string> bad;
  bool started_elsewhere = false;
  int tries = 0;
  for (const auto& [host, crashes] : early_) {
    const int most = kStartTries * own_slots(host);
    tries += planted(Bug::kBadHostUsesUpTheTries) ? crashes.count : std::min(crashes.count, most);
    if (most > 0 && crashes.count >= most && !own_trainer_ready_on(host)) bad.push_back(host);
  }
  for (const auto& [name, trainer] : trainers_) {
    const bool on_bad = std::find(bad.begin(), bad.end(), host_of(trainer.worker)) != bad.end();
    started_elsewhere = started_elsewhere || (!joined(trainer.worker) && !on_bad);
  }
  if (started_elsewhere && !planted(Bug::kBadHostUsesUpTheTries)) {
    for (const std::string& host : bad) {
      config_.expected_trainers -= own_slots(host);
      const EarlyCrashes& crashes = early_.at(host);
      const std::string why = crashes.said ? crashes.said->line : crashes.how;
      early_.erase(host);
      leave_out(host, str("trainers cannot start on this host, but they start on other hosts: ", why));
    }
    if (!bad.empty()) form_if_possible();
    return;
  }
  if (!config_.restarted && tries >= kStartTries * std::max(config_.expected_trainers, 1))
    give_up(early_end("trainers end before training begins"));
}

// ---- killed, and at a step ----

// Somebody wants the node, or plays with kill -9: no trainer's fault. As many as that without a step in
// between are not: most often the memory does not suffice.
void Coordinator::killed() {
  if (!kill_step_ || step_ > *kill_step_) {
    kill_step_ = step_;
    kills_ = 0;
  }
  if (++kills_ < kKillLimit * std::max(config_.expected_trainers, 1)) return;
  Finish finish{70,
                str("trainers are killed again and again at step ", *kill_step_, ": is there enough memory?"),
                resume_hint()};
  finish.stuck_at = kill_step_;
  give_up(finish);
}

// Called once for each generation that has ended.
void Coordinator::judge_crashes() {
  if (crash_step_ &&
      step_ > *crash_step_) {  // it got past that step: whatever ended it, that one is not cursed
    crash_step_.reset();
    crashes_ = 0;
  }
  if (crash_.empty()) return;
  const std::string how = std::exchange(crash_, "");
  if (!crash_step_) {
    crash_step_ = step_;
    crashes_ = began_ == step_ ? 1 : 0;
  } else if (!planted(Bug::kCrashesCountedPerTrainer)) {
    ++crashes_;
  }
  if (crashes_ < kCrashLimit) return;
  Finish finish{70, str("trainers crash again and again at step ", *crash_step_, ": ", how), resume_hint()};
  finish.stuck_at = crash_step_;
  give_up(finish);
}

}  // namespace rekindle::protocol
