// The decision at the end of an attempt: whether to ask Slurm for the next attempt, and the lines for the
// user. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "slurm/cause.hpp"

namespace rekindle::slurm {

// --on-limit: how an attempt requests the next attempt.
enum class OnLimit { kRequeue, kResubmit, kExit };

// The job is not queued again after this number of consecutive attempts that saved no new step. An attempt
// that failed by itself was short, and what it lacked may come back within hours. Others used all their time.
std::uint64_t most_futile_attempts(Cause cause);
// How long the next attempt must wait after this number of consecutive futile attempts, of which `cause`
// ended the last.
std::chrono::minutes pause_after(Cause cause, std::uint64_t futile_attempts);

struct AttemptEnd {
  Cause cause = Cause::kFinished;
  int signal = 0;                   // the first signal that asked the attempt to stop; 0: none
  std::uint64_t step = 0;           // the newest committed step
  std::uint64_t step_at_start = 0;  // the newest committed step when the attempt began
  bool is_successor = false;        // this process replaces a dead batch script
  OnLimit on_limit = OnLimit::kRequeue;
  std::string job;  // the id, as scontrol takes it
};

struct EndDecision {
  bool needs_next = false;         // the run should go on in another attempt, without its user
  bool futile = false;             // the next attempt would probably end the same way: count this one
  bool asks_slurm = false;         // this process asks for the next attempt (requeue or resubmission)
  std::vector<std::string> lines;  // for the user, unless the job has had too many futile attempts
};
EndDecision decide(const AttemptEnd& end);

// Whether the next attempt would probably end the same way: the attempt failed by itself, or used all its
// time and saved no new step. Ends with an outside cause (preemption, a lost node) are not futile.
bool is_futile(Cause cause, bool saved_something);

// The instruction for a user who wants to continue the job.
std::string how_to_go_on(const std::string& job);

}  // namespace rekindle::slurm
