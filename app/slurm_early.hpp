// The request for the next attempt while the state is still being written.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "app/slurm_job.hpp"
#include "app/slurm_log.hpp"
#include "run/layout.hpp"
#include "slurm/cause.hpp"

namespace rekindle::app {

// When the job's time is over, Slurm kills this process, and then nobody would ask for the next attempt. So
// this request does not wait for a state that slow storage has not stored by then.
class EarlyRequest {
 public:
  struct Attempt {
    slurm::Cause cause;
    std::uint64_t step_at_start = 0;    // the committed step when the attempt began
    std::uint64_t futile_attempts = 0;  // before this one
    bool last = false;                  // if this one is futile, too, the job is given up
  };
  // Sends the request in a thread of its own, once. The thread uses no file of the run before Slurm has
  // answered, because the storage may hang.
  void start(const SlurmJob& job, const SlurmLog& log, const run::Layout& layout, const Attempt& attempt);
  bool started() const { return shared_ != nullptr; }
  // Waits for Slurm's answer. The cause with which the request was sent, if Slurm has accepted it.
  std::optional<slurm::Cause> accepted() const;
  bool counted() const;  // as a futile attempt, by the thread

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // shared with the thread, which may outlive this object
};

}  // namespace rekindle::app
