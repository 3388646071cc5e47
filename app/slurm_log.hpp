// The attempts of a job in attempts.jsonl, and the last request to Slurm in requeue.json, for the next
// attempt.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "run/layout.hpp"
#include "slurm/cause.hpp"
#include "slurm/environment.hpp"

namespace rekindle::app {

class SlurmLog {
 public:
  SlurmLog(const run::Layout& layout, const slurm::Environment& environment);

  // Whether an earlier attempt of this job, or the job that submitted this one, has begun.
  bool is_later_attempt() const { return environment_.restarts > 0 || !follows_.empty(); }
  // Whether a live run of another job, or a later attempt of this job, holds the run directory.
  bool held_by_another() const;
  // Whether another node has claimed the run after this one.
  bool held_by_another_node() const;
  // Whether `rekindle stop` was called during this job's previous attempt, and that attempt ended without
  // acting on it.
  bool stop_was_missed(const std::string& request) const;
  // The committed step in this attempt's begin line; `otherwise` if there is no such line.
  std::uint64_t step_at_begin(std::uint64_t otherwise) const;
  // How many consecutive attempts have saved nothing beyond this step, as far as they were counted.
  std::uint64_t futile_attempts(std::uint64_t step) const;

  // Sets the number of the run's attempt, which each line contains from now on.
  void set_attempt(std::uint64_t number) { attempt_ = number; }
  std::uint64_t attempt() const { return attempt_; }
  void begin(std::size_t nodes, std::uint64_t step);
  void begin_as_successor();
  // Writes nothing if another run holds the directory by now, because the records belong to that run.
  void end(slurm::Cause cause, std::uint64_t step, const nlohmann::json& more);
  // False: the line could not be written.
  bool count_futile(std::uint64_t step, std::uint64_t number);

  // Records a request to Slurm before it is sent. `successor`: the submitted job, as soon as it exists.
  void note_request(slurm::Cause cause, std::uint64_t step, const std::string& successor = "") const;

 private:
  std::string why_begun() const;
  bool last_has_ended() const;
  bool record(nlohmann::json line);

  const run::Layout layout_;
  const slurm::Environment environment_;
  std::string follows_;  // the job that submitted this one; else empty
  std::uint64_t attempt_ = 0;
};

}  // namespace rekindle::app
