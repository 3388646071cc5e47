// The optimizer and the learning rate of a job.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "optim/optimizer.hpp"
#include "optim/schedule.hpp"
#include "protocol/job.hpp"

namespace rekindle::protocol {

// The optimizer of a script that brings its own (capi/rekindle.h): the job has only the schedule, as the
// factor of its learning rates.
inline constexpr const char* kScriptsOptimizer = "script";

// A script's own optimizer has none here: the result is one that is never called.
optim::Options optimizer_options(const Job& job);

// With the rates of the job, those of the run's newest part.
Result<optim::Schedule> schedule_of(const Job& job);

// The rate of the update number `step` (from 0). A step that is made again, after a damaged checkpoint, has
// the rate of its own time: --change-lr does not reach back. The job's schedule is valid.
double learning_rate(const Job& job, std::uint64_t step);

}  // namespace rekindle::protocol
