// The coordinator's records in the run directory: metrics, attempts, status. No CAF, no decisions.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "actors/record_parts.hpp"
#include "base/background.hpp"
#include "protocol/coordinator.hpp"
#include "run/layout.hpp"
#include "run/records.hpp"

namespace rekindle::actors {

// Storage may be slow, and the coordinator must not wait for it: except for begin() and end(), all writes are
// done later by a thread, in order.
class RunRecords {
 public:
  // `attempt` 0: begin the next attempt. Otherwise a restarted coordinator continues that attempt.
  RunRecords(const run::Layout& layout, const protocol::Job& job, std::uint64_t term, std::uint64_t attempt);

  std::uint64_t attempt() const { return attempt_; }
  void begin(bool restarted, const run::Recorded& recorded = {});
  void end(int exit_code, const std::string& why, std::uint64_t step);
  // This coordinator has lost its supervisor; the attempt may go on under another one.
  void orphan(std::uint64_t step);
  void rewind(std::uint64_t step);
  // Returns lines for the user: of a voided step, and with the first step of an attempt, the earlier steps
  // that have no line in metrics.jsonl and will not get a line.
  std::vector<std::string> record(const protocol::StepDone& done);
  void record(const protocol::Evaluated& evaluated);
  void set_aside(const std::string& checkpoint);
  void abandon(const protocol::GenerationId& generation, std::uint64_t step);
  // Writes status.json, for `rekindle status`. After show_end(), show() writes nothing.
  void show(const protocol::Coordinator& coordinator);
  void show_end(const protocol::Coordinator& coordinator, int exit_code);
  // At the end: the steps without a line that were not reported yet; "" if none.
  std::string missing_lines();
  // Waits until all writes are on storage or have failed.
  void flush() { later_.flush(); }

 private:
  void append(const nlohmann::json& line);
  void write_status(const protocol::Coordinator& coordinator, const std::string& state);
  void record_attempt(const nlohmann::json& line);
  std::string take_missing();
  std::string voided_line() const;  // of the step that was recorded last, if the step is voided; or ""
  void warn_once(const Status& status);
  bool no_longer_in_charge() const;  // a newer term is in charge, or the term cannot be read: delete nothing

  run::Layout layout_;
  protocol::Job job_;
  run::MetricsFile metrics_;  // only used in later_'s thread, as attempts_
  run::LineFile attempts_;
  std::uint64_t term_, attempt_;
  protocol::StepDone last_;
  Gaps gaps_;
  std::set<std::uint64_t> voided_;  // steps whose gradient was not finite
  struct {
    nlohmann::json trainers = nlohmann::json::array();
    bool end = false;  // the attempt's last status is written: no later status replaces it
  } shown_;
  bool warned_ = false;  // only used in later_'s thread
  NewestText status_;
  Background later_;  // last: uses all of the above
};

}  // namespace rekindle::actors
