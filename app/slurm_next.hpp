// The request to Slurm for the attempt after this one.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "app/slurm_job.hpp"
#include "app/slurm_log.hpp"
#include "run/layout.hpp"
#include "slurm/commands.hpp"
#include "slurm/requeue.hpp"

namespace rekindle::app {

// How this job asks for its next attempt, by --on-limit: it requeues itself, or submits a job that follows it
// after `pause`; then `successor` becomes the id of that job.
slurm::Queue queue_for_next(const SlurmJob& job, const run::Layout& layout, std::chrono::minutes pause,
                            std::string& successor);

struct NextJob {
  bool accepted = false;
  std::string job;  // that was submitted; empty: the job itself was requeued
};
struct SavedState {
  slurm::Cause cause;  // of the end of this attempt
  std::uint64_t step = 0;
  std::uint64_t futile_attempts = 0;  // consecutive ones, with this one
};

// An answer of Slurm about this job that is at most seconds old, if there is one.
using FreshAnswer = std::function<std::optional<slurm::JobFacts>()>;

// Requeues the job or, with --on-limit resubmit, submits a job that follows it, and reports the result.
// Repeats the request for at most --requeue-within. `fresh` is called right before the request: an older
// answer may miss that another process has requeued the job.
NextJob ask_for_next(const SlurmJob& job, const run::Layout& layout, const SlurmLog& log,
                     const SavedState& saved, const FreshAnswer& fresh);

// Cancels a job that has lost its batch script, and goes on in no other attempt. Slurm would keep such a job
// until its time limit. `cause`: why the script is gone.
void cancel_without_script(const SlurmJob& job, slurm::Cause cause);

}  // namespace rekindle::app
