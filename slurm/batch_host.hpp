// Whether a job still has its batch host. Used by processes on the job's other nodes.
#pragma once

#include <cstdint>
#include <string>

#include "slurm/commands.hpp"

namespace rekindle::slurm {

struct BatchHostAnswer {
  JobFacts facts;
  // The job has lost its batch host, and has not been requeued since `restarts`.
  bool lost = false;
  // The job still has its batch host, but SIGKILL ended the batch script, and Slurm therefore ends the job.
  bool script_killed = false;
};

// Asks Slurm about the job `id`, which had `restarts` restarts when this attempt began.
Result<BatchHostAnswer> ask_for_batch_host(const std::string& id, std::uint64_t restarts);

}  // namespace rekindle::slurm
