// What happens to a run, as a person would tell it: from the records in its directory.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "checkpoint/checkpoint.hpp"
#include "run/layout.hpp"
#include "view/line_tail.hpp"

namespace rekindle::view {

// kind        what has happened                                               more fields
// started     an attempt began                                                host
// recovered   the run goes on with other trainers, or another coordinator     trainers, before
// evaluated   the test set                                                    those of the line in
// metrics.jsonl saved       a checkpoint is complete                                        checkpoint
// requeued    a Slurm job ended, and it or another one goes on                cause
// stopped     an attempt saved its state and ended                            why
// finished    the run                                                         why
// gave_up     an attempt ended with an error                                  why
struct RunEvent {
  std::string kind, at;  // at: "2026-11-26T09:24:05Z"
  std::uint64_t attempt = 0, step = 0;
  std::string text;                                // a line for people
  nlohmann::json more = nlohmann::json::object();  // the further fields

  // One object with all of this, for programs.
  nlohmann::json json(const run::Layout& layout) const;
};

class RunEvents {
 public:
  // Those from now on, or all that the records still have. Of checkpoints, only those from now on: the
  // records do not say when they were made.
  enum class From { kNow, kBeginning };
  RunEvents(run::Layout layout, From from);

  // Those since the last call, by time. After an error nothing is lost: the next call has it.
  Result<std::vector<RunEvent>> read_new();

 private:
  Status read_metrics(std::vector<RunEvent>& events);
  Status read_attempts(std::vector<RunEvent>& events);
  void on_attempt(const nlohmann::json& line, std::vector<RunEvent>& events);
  void on_metrics(const nlohmann::json& line, std::vector<RunEvent>& events);
  void on_checkpoints(std::vector<RunEvent>& events);

  const run::Layout layout_;
  LineTail attempts_, metrics_;
  std::set<checkpoint::CheckpointId> saved_;
  bool silent_;  // in the next call
  struct Seen {
    std::string generation, newest;  // of the last step line; `at` of the newest line
    std::uint64_t attempt = 0, trainers = 0;
    std::uint64_t term = 0;  // the newest one that has begun
  } seen_;
  std::vector<RunEvent> waiting_;  // collected by a call that then failed
};

}  // namespace rekindle::view
