// What a worker does about the end of its supervisor, in a Slurm job with --no-kill: if the batch host is
// dead, the job goes on without it, and nobody else would save the state or bring the job back.
#pragma once

#include <string>

#include "actors/worker.hpp"
#include "base/result.hpp"
#include "run/layout.hpp"

namespace rekindle::app {

// Looks at the run directory, and asks Slurm where nobody leads the run any more. If Slurm has taken the
// batch host from the job, `rekindle slurm-successor` is started. Lives as long as its process.
class BatchHostWatch final : public actors::Keeper {
 public:
  // `text`: successor_text() of the job.
  static Result<BatchHostWatch*> start(const run::Layout& layout, const std::string& text);
  BatchHostWatch(const BatchHostWatch&) = delete;

  int supervisor_gone() override;
  // Waits for a successor that this watch has started: it would end with the worker's step.
  void before_leaving() override;

 private:
  struct Parts;
  explicit BatchHostWatch(Parts* parts) : parts_(parts) {}
  Parts* parts_;  // never deleted: a thread uses them to the process's end
};

}  // namespace rekindle::app
