// The coordinator's records that grow by lines: metrics and attempts. No CAF, no decisions.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "actors/record_parts.hpp"
#include "actors/record_writer.hpp"
#include "protocol/coordinator.hpp"
#include "run/records.hpp"

namespace rekindle::actors {

// Except for begin() and end(), all writes are done later by the writer's thread.
class RunRecords {
 public:
  // `attempt` 0: begin the next attempt. Otherwise a restarted coordinator continues that attempt.
  RunRecords(RecordWriter& writer, std::uint64_t attempt);
  ~RunRecords() { writer_.flush(); }
  RunRecords(const RunRecords&) = delete;
  RunRecords& operator=(const RunRecords&) = delete;

  std::uint64_t attempt() const { return attempt_; }
  LastStep last() const { return {last_, voided_.size()}; }
  void begin(bool restarted, const run::Recorded& recorded = {});
  void end(int exit_code, const std::string& why, std::uint64_t step);
  // This coordinator has lost its supervisor; the attempt may go on under another one.
  void orphan(std::uint64_t step);
  void rewind(std::uint64_t step);
  // Returns lines for the user: of a voided step; that records cannot be written; and with the first step of
  // an attempt, the earlier steps that have no line in metrics.jsonl and will not get a line.
  std::vector<std::string> record(const protocol::StepDone& done);
  void record(const protocol::Evaluated& evaluated);
  // At the end: the steps without a line that were not reported yet; "" if none.
  std::string missing_lines();

 private:
  void append(const nlohmann::json& line);
  void record_attempt(const nlohmann::json& line);
  std::string take_missing();
  std::string voided_line() const;  // of the step that was recorded last, if the step is voided; or ""

  RecordWriter& writer_;
  run::MetricsFile metrics_;  // only used in the writer's thread, as attempts_
  run::LineFile attempts_;
  std::uint64_t attempt_;
  protocol::StepDone last_;
  Gaps gaps_;
  std::set<std::uint64_t> voided_;  // steps whose gradient was not finite
};

}  // namespace rekindle::actors
