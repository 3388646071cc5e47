// A worker's reaction to the end of its supervisor, in a Slurm job with --no-kill. If the batch host is dead,
// the job continues without it, and no other process would save the state or requeue the job.
#pragma once

#include <string>

#include "actors/worker.hpp"
#include "base/result.hpp"
#include "run/layout.hpp"

namespace rekindle::app {

// Watches the run directory, and asks Slurm if the run seems to have no coordinator. If the job has lost its
// batch host or script, `rekindle slurm-successor` is started. Exists as long as its process.
class BatchHostWatch final : public actors::Keeper {
 public:
  // `text`: successor_text() of the job.
  static Result<BatchHostWatch*> start(const run::Layout& layout, const std::string& text);
  BatchHostWatch(const BatchHostWatch&) = delete;

  int supervisor_gone() override;
  // Waits for a successor that this watch has started, because the successor would end with the worker's
  // step.
  void before_leaving() override;

 private:
  struct Parts;
  explicit BatchHostWatch(Parts* parts) : parts_(parts) {}
  Parts* parts_;  // never deleted: a thread uses the parts until the process ends
};

}  // namespace rekindle::app
