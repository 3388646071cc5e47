// Putting this job back into the queue, once, whatever Slurm answers.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "slurm/commands.hpp"
#include "slurm/environment.hpp"

namespace rekindle::slurm {

// Slurm and time, as requeue_once() uses them.
struct Queue {
  std::function<Result<JobFacts>()> show;
  std::function<Status()> requeue;
  std::function<void(std::chrono::milliseconds)> sleep;
  std::function<std::chrono::steady_clock::time_point()> now;
};
Queue queue_of(const Environment& environment);

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
