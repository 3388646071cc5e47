#include "slurm/cause.hpp"

#include <csignal>

#include "base/result.hpp"
#include "slurm/deadline.hpp"

namespace rekindle::slurm {
namespace {

// --signal may arrive a minute early (sbatch(1)), and users may request it long before the time limit.
constexpr std::chrono::minutes kNearTheEnd{15};

bool near(const std::optional<SystemTime>& end, SystemTime when) { return end && *end - when < kNearTheEnd; }

}  // namespace

std::string to_text(Cause cause) {
  switch (cause) {
    case Cause::kFinished:
      return "finished";
    case Cause::kTimeLimit:
      return "time limit";
    case Cause::kPreemption:
      return "preemption";
    case Cause::kRequeued:
      return "requeued by Slurm or an operator";
    case Cause::kCancelled:
      return "cancelled";
    case Cause::kStopped:
      return "rekindle stop";
    case Cause::kNodeLeaves:
      return "a node is shut down";
    case Cause::kShellKilled:
      return "SIGUSR1 ended the batch script's shell";
    case Cause::kBatchHostLost:
      return "the batch host was lost";
    case Cause::kScriptKilled:
      return "the batch script was killed";
    case Cause::kOperator:
      return "asked to stop";
    case Cause::kFailed:
      return "the attempt failed";
    case Cause::kGaveUp:
      return "gave up";
    case Cause::kUnknown:
      return "unknown";
  }
  return "unknown";
}

Cause judge(const Seen& seen) {
  if (seen.exit_code == static_cast<int>(ExitCode::kFinished)) return Cause::kFinished;
  if (seen.stop_asked) return Cause::kStopped;  // even if a signal also arrived
  // These causes come before the exit code: Slurm does not requeue such a job by itself.
  if (seen.batch_host_lost) return Cause::kBatchHostLost;
  if (seen.script_killed) return Cause::kScriptKilled;
  if (seen.signal == 0) {
    // A reason that keeps an attempt from starting (no trainer, no claimed term) may be temporary.
    const bool may_pass =
        seen.exit_code == static_cast<int>(ExitCode::kGaveUp) && (seen.never_trained || seen.may_pass);
    return may_pass || seen.exit_code == static_cast<int>(ExitCode::kSaved) ? Cause::kFailed : Cause::kGaveUp;
  }
  if (seen.preempting) return Cause::kPreemption;
  if (seen.facts && seen.facts->restarts > seen.restarts) return Cause::kRequeued;
  if (seen.facts && shell_killed(*seen.facts)) return Cause::kShellKilled;
  if (seen.facts && is_over(*seen.facts))
    return seen.facts->reason == "TimeLimit" ? Cause::kTimeLimit : Cause::kCancelled;
  // Only the signal of --signal is evidence for the time limit.
  const bool nears =
      near(seen.limit, seen.signalled_at) || (seen.facts && near(seen.facts->end, seen.signalled_at));
  if (seen.signal == SIGUSR1 && nears) return Cause::kTimeLimit;
  if (seen.facts && seen.signal == SIGTERM && (seen.some_nodes_alone || seen.host_stops))
    return Cause::kNodeLeaves;
  return seen.facts ? Cause::kOperator : Cause::kUnknown;
}

bool wants_requeue(Cause cause, int signal) {
  switch (cause) {
    case Cause::kTimeLimit:
    case Cause::kPreemption:
    case Cause::kNodeLeaves:
    case Cause::kShellKilled:
    case Cause::kBatchHostLost:
    case Cause::kScriptKilled:
    case Cause::kFailed:
      return true;
    case Cause::kOperator:
    case Cause::kUnknown:
      return signal == SIGUSR1;  // SIGUSR1 is the request for a requeue
    default:
      return false;
  }
}

}  // namespace rekindle::slurm
