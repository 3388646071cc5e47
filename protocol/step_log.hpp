// Which steps and evaluations are in the records, and which reported steps must still be recorded.
//
// Invariants: no missing step is above newest(), and few are missing. Every step is returned for recording
// once between two rewinds to an earlier step.
#pragma once

#include <cstdint>
#include <set>

namespace rekindle::protocol {

class StepLog {
 public:
  // The records of an older coordinator.
  StepLog(std::uint64_t newest, std::set<std::uint64_t> evaluated)
      : newest_(newest), evaluated_(std::move(evaluated)) {}

  std::uint64_t newest() const { return newest_; }
  // Whether a step that was just made must be recorded. False if the step is reported again after a
  // connection broke.
  bool take(std::uint64_t step);
  // The same for a step reported by another trainer, because the reporting trainer may have died. Only steps
  // up to `began`, the step from which that generation began, count: its own rank 0 reports later ones.
  bool take_late(std::uint64_t step, std::uint64_t began);
  // The run continues from `step`. True if records of later steps must be removed.
  bool rewind(std::uint64_t step);

  bool is_evaluated(std::uint64_t step) const { return evaluated_.contains(step); }
  // False if the evaluation is already recorded.
  bool take_evaluation(std::uint64_t step) { return evaluated_.insert(step).second; }

  void check() const;

 private:
  std::uint64_t newest_;
  std::set<std::uint64_t> missing_;  // steps below newest() that were not reported yet
  std::set<std::uint64_t> evaluated_;
};

}  // namespace rekindle::protocol
