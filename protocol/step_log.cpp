#include "protocol/step_log.hpp"

#include <algorithm>

#include "base/invariant.hpp"

namespace rekindle::protocol {

namespace {
// A trainer reports no steps that are older than that.
constexpr std::uint64_t kMostMissing = 1000;
}  // namespace

bool StepLog::take(std::uint64_t step) {
  const bool was_missing = missing_.erase(step) > 0;
  if (step <= newest_ && !was_missing) return false;
  // The steps in between, limited to those that a trainer may still report.
  for (std::uint64_t each = std::max(newest_ + 1, step - std::min(step, kMostMissing)); each < step; ++each)
    missing_.insert(each);
  while (missing_.size() > kMostMissing) missing_.erase(missing_.begin());
  newest_ = std::max(newest_, step);
  return true;
}

bool StepLog::take_late(std::uint64_t step, std::uint64_t began) {
  // Newer steps of that generation may have been reported first, by another worker.
  const bool was_missing = missing_.erase(step) > 0;
  if (step > began || (step <= newest_ && !was_missing)) return false;
  newest_ = std::max(newest_, step);
  return true;
}

bool StepLog::rewind(std::uint64_t step) {
  evaluated_.erase(evaluated_.upper_bound(step), evaluated_.end());
  if (newest_ <= step) return false;
  newest_ = step;
  missing_.erase(missing_.upper_bound(step), missing_.end());
  return true;
}

void StepLog::check() const {
  invariant(missing_.empty() || *missing_.rbegin() <= newest_, "a step is missing that was never made");
  invariant(missing_.size() <= kMostMissing, "too many steps are missing");
}

}  // namespace rekindle::protocol
