// rekindle slurm: a run whose workers are on the nodes of a batch job, and whose end may be the job's next
// beginning.
#pragma once

#include "app/initial_state.hpp"
#include "app/options.hpp"
#include "app/slurm_job.hpp"

namespace rekindle::app {

// Runs the job's attempt; the exit code.
int run_slurm(const SlurmJob& job, const LocalOptions& options, InitialState initial);

// An error before it began: requeues the job if earlier attempts had none. The exit code.
int fail_slurm(const SlurmJob& job, const LocalOptions& options, const Error& error);

}  // namespace rekindle::app
