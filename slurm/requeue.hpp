// Putting this job back into the queue, once, whatever Slurm answers.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "slurm/commands.hpp"
#include "slurm/environment.hpp"

namespace rekindle::slurm {

// Slurm and time, as requeue_once() uses them.
struct Queue {
  std::function<Result<JobFacts>()> show;
  // `goes_on`: only if it has not been cancelled meanwhile. Returns whether it is sure to be accepted; if
  // not, the next look tells.
  std::function<Result<bool>(bool goes_on)> requeue;
  std::function<void(std::chrono::milliseconds)> sleep;
  std::function<std::chrono::steady_clock::time_point()> now;
};
Queue queue_of(const Environment& environment);

// The same for a site where jobs may not be requeued: another job of the same script, which begins when this
// one has ended. While there is such a job, whoever submitted it, `successor` is its id, and this job counts
// as requeued.
Queue resubmission_of(const Environment& environment, const std::filesystem::path& script,
                      std::string& successor);

struct Requeued {
  bool accepted = false;
  bool may_be = true;  // some other time, by hand
  std::string detail;  // why not; or who did
};

// Asks until Slurm has accepted it, refuses it for good, or `patience` is over. A call whose answer is lost
// may have been accepted, and the next attempt may run already: so before each call the job is looked at, and
// nothing is asked of one that has more restarts than `restarts`, that was cancelled, or that cannot be seen.
// `seen`: what the job looked like a moment ago.
Requeued requeue_once(const Queue& queue, std::uint64_t restarts, std::chrono::milliseconds patience,
                      std::optional<JobFacts> seen = std::nullopt);

}  // namespace rekindle::slurm
