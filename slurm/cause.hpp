// Why an attempt ends, and whether its job has to be queued again for it. Pure.
#pragma once

#include <optional>
#include <string>

#include "slurm/commands.hpp"

namespace rekindle::slurm {

enum class Cause {
  kFinished,       // the run is complete
  kTimeLimit,      // the job's time is over, or nearly
  kPreemption,     // others want its nodes
  kRequeued,       // somebody has already put it back into the queue
  kCancelled,      // scancel
  kStopped,        // rekindle stop: until somebody submits it again
  kNodeLeaves,     // some of the nodes are shut down
  kShellKilled,    // SIGUSR1 ended the batch script's shell, which did not exec rekindle
  kBatchHostLost,  // the job goes on, or ends, without the node of its batch script
  kScriptKilled,   // SIGKILL ended the batch script, and not the job's processes on its other nodes
  kOperator,       // a signal by hand
  kFailed,         // the attempt ended by itself: too few trainers, no coordinator, data that are away
  kGaveUp,         // nothing that running again would mend
  kUnknown,        // signalled, and Slurm does not say why
};
std::string to_text(Cause cause);

// What an attempt has seen by its end.
struct Seen {
  int exit_code = 0;                // of the run's attempt
  int signal = 0;                   // the first that asked it to stop; 0: none
  bool stop_asked = false;          // rekindle stop
  bool never_trained = false;       // though the run had got on before
  std::uint64_t restarts = 0;       // of this attempt
  bool some_nodes_alone = false;    // were signalled
  bool batch_host_lost = false;     // Slurm has taken the batch script's node from the job
  bool script_killed = false;       // the batch script is dead, and its node is still the job's
  bool preempting = false;          // Slurm said so at any time since the signal
  std::optional<JobFacts> facts;    // the newest since the signal
  std::optional<SystemTime> limit;  // the end of the job's time, as known before the signal
  SystemTime signalled_at{};        // when it came
};

Cause judge(const Seen& seen);

// Whether this attempt has to ask Slurm for the next one.
bool wants_requeue(Cause cause, int signal);

}  // namespace rekindle::slurm
