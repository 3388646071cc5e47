// The cause of an attempt's end, and whether the job must be queued again. Pure.
#pragma once

#include <optional>
#include <string>

#include "slurm/commands.hpp"

namespace rekindle::slurm {

enum class Cause {
  kFinished,       // the run is complete
  kTimeLimit,      // the job has reached its time limit, or is close to it
  kPreemption,     // Slurm preempts the job
  kRequeued,       // Slurm or an operator has already requeued the job
  kCancelled,      // scancel
  kStopped,        // rekindle stop: the user must submit the job again
  kNodeLeaves,     // some of the nodes are shut down
  kShellKilled,    // SIGUSR1 ended the batch script's shell, which did not exec rekindle
  kBatchHostLost,  // the job has lost the node of its batch script, and runs on or ends
  kScriptKilled,   // SIGKILL ended the batch script, but not the job's processes on its other nodes
  kOperator,       // a person sent a signal
  kFailed,         // the attempt ended by itself: too few trainers, no coordinator, unavailable data
  kGaveUp,         // an error that another attempt would not correct
  kUnknown,        // a signal, and Slurm gave no reason
};
std::string to_text(Cause cause);

// Observations of an attempt until its end.
struct Seen {
  int exit_code = 0;                // of the run's attempt
  int signal = 0;                   // the first signal that asked the attempt to stop; 0: none
  bool stop_asked = false;          // rekindle stop
  bool never_trained = false;       // no step was made, although earlier attempts had made steps
  bool may_pass = false;            // the run gave up for an error that a later attempt may not meet
  std::uint64_t restarts = 0;       // the job's restarts when this attempt began
  bool some_nodes_alone = false;    // some nodes got the signal, but not the batch host
  bool host_stops = false;          // the batch host is being shut down
  bool batch_host_lost = false;     // Slurm has taken the batch script's node from the job
  bool script_killed = false;       // the batch script is dead, but the job still has its node
  bool preempting = false;          // Slurm reported a preemption at any time since the signal
  std::optional<JobFacts> facts;    // the newest facts since the signal
  std::optional<SystemTime> limit;  // the end of the job's time, as known before the signal
  SystemTime signalled_at{};        // the time of the signal
};

Cause judge(const Seen& seen);

// Whether this attempt has to ask Slurm for the next one.
bool wants_requeue(Cause cause, int signal);

}  // namespace rekindle::slurm
