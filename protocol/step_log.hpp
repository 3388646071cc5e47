// Which steps and evaluations are on record, and which of those that trainers tell of have still to be
// recorded.
//
// Invariants: no step above newest() is on record, and none above it is missing; every step is handed out for
// recording once between two rewinds that reach it.
#pragma once

#include <cstdint>
#include <set>

namespace rekindle::protocol {

class StepLog {
 public:
  // What an older coordinator has recorded.
  StepLog(std::uint64_t newest, std::set<std::uint64_t> evaluated)
      : newest_(newest), evaluated_(std::move(evaluated)) {}

  std::uint64_t newest() const { return newest_; }
  // Whether a step that has just been made has to be recorded: not if it is told again after a connection
  // broke.
  bool take(std::uint64_t step);
  // The same for a step that others tell, because the one that made it known may have died: of a generation
  // that began at `began`, only older ones (newer ones it tells itself).
  bool take_late(std::uint64_t step, std::uint64_t began);
  // The run goes on from `step`. True: records of later steps are void.
  bool rewind(std::uint64_t step);

  bool is_evaluated(std::uint64_t step) const { return evaluated_.contains(step); }
  // False: it is on record.
  bool take_evaluation(std::uint64_t step) { return evaluated_.insert(step).second; }

 private:
  std::uint64_t newest_;
  std::set<std::uint64_t> missing_;  // steps that nobody has told yet, though later ones are on record
  std::set<std::uint64_t> evaluated_;
};

}  // namespace rekindle::protocol
