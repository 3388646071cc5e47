// By when a job that was asked to stop must have saved its state. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <string>

#include "slurm/commands.hpp"

namespace rekindle::slurm {

// What is known since the first signal came; times by the system's clock.
struct Stopping {
  SystemTime signalled{};
  std::optional<SystemTime> terminated;  // the first SIGTERM: Slurm kills KillWait later, if it means the job
  std::optional<JobFacts> answer;        // Slurm's, since the newest signal
  std::optional<SystemTime> end;         // of the job's time, as known before
  std::chrono::milliseconds kill_wait{30000};
  std::optional<std::chrono::milliseconds> within;  // --stop-within
};

// Until Slurm has said what the signal meant, nothing is given up for it, for two seconds; from then on what
// was known before counts, and a SIGTERM is taken for the end. nullopt: as long as it takes.
std::optional<SystemTime> stop_deadline(const Stopping& stop, SystemTime now);

// Whether the job has come to its end, whatever its processes still do.
bool is_over(const JobFacts& facts);

// Whether the job ends because SIGUSR1 ended the batch script's shell. Slurm reports a cancelled job whose
// steps still run as COMPLETING, too; but its batch script ended by SIGTERM (0:15) or has not ended (0:0).
bool shell_killed(const JobFacts& facts);

// Whether the job ends because its batch step was killed at once, as when the batch host is set down by hand.
// A cancelled job's batch script gets SIGTERM first (0:15).
bool batch_step_killed(const JobFacts& facts);

// Whether the job has lost its batch host, `nodes` being those that it still has. With --no-kill Slurm 22.05
// then leaves the job RUNNING until its time limit; if the node was set down by hand, the job ends
// (COMPLETING, JobLaunchFailure). In neither case does Slurm requeue the job.
bool has_lost_batch_host(const JobFacts& facts, const std::set<std::string>& nodes);

}  // namespace rekindle::slurm
