// Whether a job still has the node of its batch script, as a process on another of its nodes asks it.
#pragma once

#include <cstdint>
#include <string>

#include "slurm/commands.hpp"

namespace rekindle::slurm {

struct BatchHostAnswer {
  JobFacts facts;
  // The job has lost its batch host, and nobody has requeued it since `restarts`.
  bool lost = false;
  // The same of the batch script alone: SIGKILL ended it, and Slurm ends the job for that.
  bool script_killed = false;
};

// Asks Slurm about the job `id`, which had `restarts` restarts when this attempt began.
Result<BatchHostAnswer> ask_for_batch_host(const std::string& id, std::uint64_t restarts);

}  // namespace rekindle::slurm
