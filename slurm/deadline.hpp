// The time by which a job must have saved its state after a stop request. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <string>

#include "slurm/commands.hpp"

namespace rekindle::slurm {

// The facts since the first signal. Times are of the system clock.
struct Stopping {
  SystemTime signalled{};
  std::optional<SystemTime> terminated;  // the first SIGTERM: if the job ends, SIGKILL follows after KillWait
  std::optional<JobFacts> answer;        // Slurm's answer since the newest signal
  std::optional<SystemTime> end;         // the end of the job's time, as known before the signal
  std::chrono::milliseconds kill_wait{30000};
  std::optional<std::chrono::milliseconds> within;  // --stop-within
};

inline constexpr std::chrono::seconds kAnswerPatience{2};

// Without Slurm's answer, only --stop-within applies for kAnswerPatience after the signal. After that, the
// earlier facts count, and a SIGTERM is treated as the end of the job. nullopt: no deadline.
std::optional<SystemTime> stop_deadline(const Stopping& stop, SystemTime now);

// Whether the job is over for Slurm, even if some of its processes still run.
bool is_over(const JobFacts& facts);

// Whether the job ends because SIGUSR1 ended the batch script's shell. Slurm also reports a cancelled job
// with running steps as COMPLETING, but its batch script ended by SIGTERM (0:15) or still runs (0:0).
bool shell_killed(const JobFacts& facts);

// Whether the job ends because its batch step was killed at once, for example because an operator set the
// batch host DOWN. A cancelled job's batch script gets SIGTERM first (0:15).
bool batch_step_killed(const JobFacts& facts);

// Whether the job ends because Slurm preempts it (PreemptMode=CANCEL). Slurm does not requeue such a job by
// itself, and shows it like a cancelled one. If a person cancels a job during its GraceTime, it ends long
// after the preemption.
bool ended_by_preemption(const JobFacts& facts);

// Whether the job has lost its batch host. `nodes`: the nodes that the job still has. With --no-kill, Slurm
// 22.05 then leaves the job RUNNING until its time limit. If an operator set the node DOWN, the job ends
// (COMPLETING, JobLaunchFailure). Slurm requeues the job in neither case.
bool has_lost_batch_host(const JobFacts& facts, const std::set<std::string>& nodes);

}  // namespace rekindle::slurm
