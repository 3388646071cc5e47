#include "protocol/fault_policy.hpp"

#include <algorithm>

#include "base/planted.hpp"
#include "base/text.hpp"

namespace rekindle::protocol {

namespace {
constexpr int kKillLimit = 20;      // kills of each trainer, on average, without a step
constexpr int kHostCrashLimit = 3;  // generations with a crash on one host while no other host has any
constexpr int kStartTries = 3;      // tries of each slot before the first generation
}  // namespace

void StepCrashes::crashed(std::string how, std::uint64_t known_step) {
  if (planted(Bug::kCrashesCountedPerTrainer) && step_ && known_step <= *step_) ++generations_;
  how_ = std::move(how);
}

std::optional<StepCrashes::Stuck> StepCrashes::generation_ended(std::uint64_t began, std::uint64_t reached) {
  if (step_ && reached > *step_) {  // the run has passed that step
    step_.reset();
    generations_ = 0;
  }
  if (how_.empty()) return std::nullopt;
  const std::string how = std::exchange(how_, "");
  if (!step_) {
    step_ = reached;
    generations_ = began == reached ? 1 : 0;
  } else if (!planted(Bug::kCrashesCountedPerTrainer)) {
    ++generations_;
  }
  if (generations_ < limit_) return std::nullopt;
  return Stuck{*step_, how};
}

std::optional<std::uint64_t> Kills::killed(const std::string& trainer, std::uint64_t known_step,
                                           int trainers) {
  if (ordered_.erase(trainer) > 0) return std::nullopt;
  if (!step_ || known_step > *step_) {
    step_ = known_step;
    kills_ = 0;
  }
  ++kills_;
  return kills_ < kKillLimit * std::max(trainers, 1) ? std::nullopt : step_;
}

bool OddStates::without_progress(std::uint64_t saved) {
  if (saved > saved_) rollbacks_ = 0;
  saved_ = saved;
  return ++rollbacks_ >= kMostRollbacks;
}

bool HostCrashes::crashed(const std::string& host, const GenerationId& generation, Time now, Time forgotten,
                          bool others_there) {
  std::erase_if(hosts_, [forgotten](const auto& entry) { return entry.second.at <= forgotten; });
  Crashes& here = hosts_[host];
  if (here.generations == 0 || here.last != generation) ++here.generations;
  here.last = generation;
  here.at = now;
  return here.generations >= kHostCrashLimit && hosts_.size() == 1 && others_there;
}

void StartTries::crashed(const std::string& host, std::string how, bool refused) {
  Host& tries = hosts_[host];
  tries.count += refused ? kStartTries : 1;
  tries.how = std::move(how);
}

int StartTries::slots_without_gpu(const std::string& host) const {
  return static_cast<int>(
      std::ranges::count(no_gpu_, host, &std::pair<const std::string, std::string>::second));
}

std::vector<std::string> StartTries::used_up(const SlotsOf& own_slots) const {
  std::vector<std::string> hosts;
  for (const auto& [host, tries] : hosts_) {
    const int most = kStartTries * own_slots(host);
    if (most > 0 && tries.count >= most) hosts.push_back(host);
  }
  return hosts;
}

bool StartTries::all_used_up(const SlotsOf& own_slots, int expected) const {
  int all = 0;
  for (const auto& [host, tries] : hosts_) {
    const int most = kStartTries * own_slots(host);
    all += planted(Bug::kBadHostUsesUpTheTries) ? tries.count : std::min(tries.count, most);
  }
  return all >= kStartTries * std::max(expected, 1);
}

std::string StartTries::take_out(const std::string& host) {
  const Host tries = hosts_.at(host);
  hosts_.erase(host);
  return tries.error ? tries.error->line : tries.how;
}

Finish StartTries::end(EndCause cause, const std::string& what) const {
  Finish finish{70, what, "look at logs/ in the run directory", cause};
  for (const auto& [host, tries] : hosts_) {
    if (tries.error)
      return {tries.error->exit_code, str(what, ": ", tries.error->line), tries.error->hint, cause};
    if (!tries.how.empty()) finish.line = str(what, ": ", tries.how);
  }
  return finish;
}

int Links::failures_of(const std::string& worker) const {
  int sum = 0;
  for (const auto& [link, count] : failures_) {
    if (link.first == worker || link.second == worker) sum += count;
  }
  return sum;
}

void Links::forget(const std::string& worker) {
  std::erase_if(failures_, [&](const auto& entry) {
    return entry.first.first == worker || entry.first.second == worker;
  });
}

bool UnusableSamples::reported(const std::string& worker, const GenerationId& generation) {
  return reports_.emplace(worker, generation).first->second != generation;
}

const std::string* UnusableSamples::why_left_out(const std::string& worker) const {
  const auto found = left_out_.find(worker);
  return found == left_out_.end() ? nullptr : &found->second;
}

}  // namespace rekindle::protocol
