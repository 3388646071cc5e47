#include "slurm/deadline.hpp"

#include <algorithm>
#include <array>
#include <csignal>

namespace rekindle::slurm {
namespace {

constexpr std::chrono::seconds kMargin{2};  // before the time limit

// Slurm's reason for a job whose batch step was lost.
constexpr const char* kLaunchFailure = "JobLaunchFailure";

// The part of KillWait that the save may use. The rest is for the requests to Slurm.
std::chrono::milliseconds before_the_kill(const Stopping& stop) {
  return stop.kill_wait - std::max<std::chrono::milliseconds>(kMargin, stop.kill_wait / 5);
}

}  // namespace

// Source: job_state_codes in Slurm's documentation. A job in any other state still runs: SIGNALING (for a
// moment after each signal), STOPPED, RESIZING, ...
bool is_over(const JobFacts& facts) {
  constexpr std::array kOver{"COMPLETING", "CANCELLED",    "COMPLETED",    "FAILED",   "TIMEOUT",
                             "NODE_FAIL",  "PREEMPTED",    "BOOT_FAIL",    "DEADLINE", "OUT_OF_MEMORY",
                             "REQUEUED",   "REQUEUE_HOLD", "SPECIAL_EXIT", "REVOKED",  "PENDING"};
  return std::any_of(kOver.begin(), kOver.end(), [&](const char* state) { return facts.state == state; });
}

bool shell_killed(const JobFacts& facts) {
  return facts.batch_signal == SIGUSR1 && (facts.state == "COMPLETING" || facts.state == "FAILED");
}

bool batch_step_killed(const JobFacts& facts) {
  return facts.state == "COMPLETING" && facts.reason == kLaunchFailure && facts.batch_signal == SIGKILL;
}

bool ended_by_preemption(const JobFacts& facts) {
  constexpr std::chrono::seconds kAtOnce{2};
  return facts.state == "COMPLETING" && facts.preempted && facts.end &&
         *facts.preempted >= *facts.end - kAtOnce;
}

bool has_lost_batch_host(const JobFacts& facts, const std::set<std::string>& nodes) {
  if (facts.batch_host.empty() || nodes.empty() || nodes.contains(facts.batch_host)) return false;
  return facts.state == "RUNNING" || batch_step_killed(facts);
}

std::optional<SystemTime> stop_deadline(const Stopping& stop, SystemTime now) {
  std::optional<SystemTime> deadline;
  const auto at_most = [&deadline](SystemTime when) {
    deadline = deadline ? std::min(*deadline, when) : when;
  };
  if (stop.within) at_most(stop.signalled + *stop.within);
  if (stop.answer && is_over(*stop.answer)) {
    at_most(stop.terminated.value_or(stop.signalled) + before_the_kill(stop));
  } else if (stop.answer) {
    if (stop.answer->end) at_most(*stop.answer->end - kMargin);
  } else if (now >= stop.signalled + kAnswerPatience) {
    if (stop.terminated) at_most(*stop.terminated + before_the_kill(stop));
    if (stop.end) at_most(*stop.end - kMargin);
  }
  return deadline;
}

}  // namespace rekindle::slurm
