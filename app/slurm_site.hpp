// rekindle slurm: a run whose workers are on the nodes of a batch job, and whose end may be the job's next
// beginning.
#pragma once

#include "app/initial_state.hpp"
#include "app/options.hpp"
#include "app/slurm_job.hpp"
#include "app/supervisor.hpp"
#include "run/terms.hpp"
#include "slurm/batch_host.hpp"

namespace rekindle::app {

// Runs the job's attempt; the exit code.
int run_slurm(const SlurmJob& job, const LocalOptions& options, InitialState initial);

// An error before it began: requeues the job if earlier attempts had none. The exit code.
int fail_slurm(const SlurmJob& job, const LocalOptions& options, const Error& error);

// A signal before it began: what Slurm means by it decides whether the job is requeued. The exit code.
int end_slurm_early(SlurmJob job, const LocalOptions& options, int signal);

// For a process on another node of the job, which has lost its batch host, or else its batch script
// (`answer`: of Slurm, just now): saves what the other nodes hold, and does what --on-limit says. nullopt:
// another node's process does that.
Result<TakenOver> succeed_slurm(const SlurmJob& job, const LocalOptions& options,
                                const slurm::BatchHostAnswer& answer, const run::Holder& lost);

}  // namespace rekindle::app
