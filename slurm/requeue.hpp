// Requeues this job exactly once, even if Slurm's answers are lost.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "slurm/commands.hpp"
#include "slurm/environment.hpp"

namespace rekindle::slurm {

// The functions of Slurm and the clock that requeue_once() uses.
struct Queue {
  std::function<Result<JobFacts>()> show;
  // `goes_on`: requeue only if the job is not over meanwhile. Returns whether the request was certainly
  // accepted. If not, the next show() gives the result.
  std::function<Result<bool>(bool goes_on)> requeue;
  std::function<void(std::chrono::milliseconds)> sleep;
  std::function<std::chrono::steady_clock::time_point()> now;
};
Queue queue_of(const Environment& environment);

// For a site where jobs may not be requeued: submits another job with the same script, which starts when this
// job has ended, `pause` from now at the earliest. If such a job exists already, `successor` is its id, and
// this job counts as requeued.
Queue resubmission_of(const Environment& environment, const std::filesystem::path& script,
                      std::chrono::minutes pause, std::string& successor);

struct Requeued {
  bool accepted = false;
  bool may_be = true;  // a user may still requeue the job with scontrol
  std::string detail;  // the reason, if not accepted
};

// Repeats the request until Slurm accepts it, finally refuses it or refuses it for minutes, or `patience` is
// over. Slurm may accept a request whose answer is lost, and the next attempt may already run. So the job's
// facts are read before each request; no request is sent if the job has more restarts than `restarts`, was
// cancelled, or cannot be read. `seen`: recent facts about the job, used instead of the first read.
Requeued requeue_once(const Queue& queue, std::uint64_t restarts, std::chrono::milliseconds patience,
                      std::optional<JobFacts> seen = std::nullopt);

}  // namespace rekindle::slurm
