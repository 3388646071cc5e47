// rekindle slurm: a run whose workers are on the nodes of a batch job, and which may requeue the job at its
// end.
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

// Handles an error before the attempt began: requeues the job if earlier attempts had no such error. Returns
// the exit code.
int fail_slurm(const SlurmJob& job, const LocalOptions& options, const Error& error);

// Handles a signal before the attempt began: Slurm's reason for the signal decides whether the job is
// requeued. Returns the exit code.
int end_slurm_early(SlurmJob job, const LocalOptions& options, int signal);

// For a process on another node of a job that has lost its batch host or its batch script (`answer`: Slurm's
// current answer): saves the other nodes' state, and acts according to --on-limit. nullopt: another node's
// process does that.
Result<TakenOver> succeed_slurm(const SlurmJob& job, const LocalOptions& options,
                                const slurm::BatchHostAnswer& answer, const run::Holder& lost);

}  // namespace rekindle::app
