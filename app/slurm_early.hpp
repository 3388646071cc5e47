// The request for the next attempt while the state is still being written.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "app/slurm_job.hpp"
#include "app/slurm_log.hpp"
#include "run/layout.hpp"
#include "slurm/cause.hpp"

namespace rekindle::app {

// When the job's time is over, Slurm kills this process, and then nobody would ask for the next attempt. So
// this request does not wait for a state that slow storage has not stored by then. It is sent by a thread of
// its own, which uses no file of the run before Slurm has answered: the storage may hang, and the main thread
// may wait for it.
class EarlyRequest {
 public:
  struct Attempt {
    slurm::Cause cause;
    std::uint64_t step_at_start = 0;    // the committed step when the attempt began
    std::uint64_t futile_attempts = 0;  // before this one
    bool last = false;                  // if this one is futile, too, the job is given up
    bool signalled = false;             // the main thread has read the signal
  };
  EarlyRequest() = default;
  ~EarlyRequest() { cancel(); }
  EarlyRequest(const EarlyRequest&) = delete;
  EarlyRequest& operator=(const EarlyRequest&) = delete;

  // The request is sent at `when`, once. A later call replaces time and attempt; nullopt: no request. Without
  // a signal, the request is only sent if there are no more calls, because the main thread waits for storage:
  // a job that was suspended goes on with a clock that may be beyond `when`.
  void set(const SlurmJob& job, const SlurmLog& log, const run::Layout& layout,
           std::optional<std::chrono::steady_clock::time_point> when, const Attempt& attempt);
  void cancel();  // from now on no request begins; one that has begun goes on
  // Cancels; waits for Slurm's answer if the request has begun. The cause with which it was sent, if Slurm
  // has accepted it.
  std::optional<slurm::Cause> settle();
  bool started() const;
  bool counted() const;  // as a futile attempt, by the thread

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // shared with the thread, which may outlive this object
};

}  // namespace rekindle::app
