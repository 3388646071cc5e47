#include "slurm/attempt_end.hpp"

#include <algorithm>
#include <array>
#include <csignal>

#include "base/text.hpp"

namespace rekindle::slurm {
namespace {

std::vector<std::string> lines_of(const AttemptEnd& end, bool needs_next) {
  std::vector<std::string> lines;
  if (end.cause == Cause::kRequeued) lines.emplace_back("Slurm has requeued this job");
  if (end.cause == Cause::kUnknown && end.signal != SIGUSR1)
    lines.push_back(
        str("Slurm gave no reason for this job's signal: the job is not requeued; if the job should go on, ",
            how_to_go_on(end.job)));
  if (end.cause == Cause::kCancelled)
    lines.emplace_back("this job was cancelled and is not requeued; submit it again to go on");
  if (end.cause == Cause::kTimeLimit && end.step == end.step_at_start)
    lines.emplace_back(
        "warning: this attempt saved no new step: is there time for a step before the signal?");
  if (end.cause == Cause::kStopped || (end.cause == Cause::kOperator && !needs_next))
    lines.emplace_back("submit the job again to go on");
  if (needs_next && end.on_limit == OnLimit::kExit)
    lines.emplace_back("not requeued (--on-limit exit): submit it again to go on");
  return lines;
}

}  // namespace

std::uint64_t most_futile_attempts(Cause cause) { return cause == Cause::kFailed ? 5 : 3; }

std::chrono::minutes pause_after(Cause cause, std::uint64_t futile_attempts) {
  using std::chrono::minutes;
  // After the first attempt, Slurm itself waits until the old credential has expired (two minutes).
  constexpr std::array kPauses{minutes(0), minutes(0), minutes(10), minutes(30), minutes(60)};
  if (cause != Cause::kFailed) return minutes(0);
  return kPauses[std::min<std::uint64_t>(futile_attempts, kPauses.size() - 1)];
}

bool is_futile(Cause cause, bool saved_something) {
  if (cause == Cause::kFailed) return true;
  const bool by_others =
      cause == Cause::kPreemption || cause == Cause::kNodeLeaves || cause == Cause::kBatchHostLost;
  return !by_others && !saved_something;
}

EndDecision decide(const AttemptEnd& end) {
  EndDecision decision;
  // A complete run whose batch script is dead needs a next attempt, which ends the job normally and at once.
  decision.needs_next =
      wants_requeue(end.cause, end.signal) || (end.is_successor && end.cause == Cause::kFinished);
  decision.futile = decision.needs_next && is_futile(end.cause, end.step != end.step_at_start);
  decision.asks_slurm = decision.needs_next && end.on_limit != OnLimit::kExit;
  decision.lines = lines_of(end, decision.needs_next);
  return decision;
}

std::string how_to_go_on(const std::string& job) {
  return str("type scontrol requeue ", job, ", or submit it again");
}

}  // namespace rekindle::slurm
