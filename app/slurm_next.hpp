// The request to Slurm for the attempt after this one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "app/slurm_job.hpp"
#include "app/slurm_log.hpp"
#include "run/layout.hpp"
#include "slurm/commands.hpp"

namespace rekindle::app {

struct NextJob {
  bool accepted = false;
  std::string job;  // that was submitted; empty: the job itself was requeued
};
struct SavedState {
  slurm::Cause cause;  // of the end of this attempt
  std::uint64_t step = 0;
};

// An answer of Slurm about this job that is at most seconds old, if there is one.
using FreshAnswer = std::function<std::optional<slurm::JobFacts>()>;

// Requeues the job or, with --on-limit resubmit, submits a job that follows it, and reports the result.
// Repeats the request for at most --requeue-within. `fresh` is called right before the request: an older
// answer may miss that another process has requeued the job.
NextJob ask_for_next(const SlurmJob& job, const run::Layout& layout, const SlurmLog& log,
                     const SavedState& saved, const FreshAnswer& fresh);

}  // namespace rekindle::app
