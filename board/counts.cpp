#include "board/counts.hpp"

#include <algorithm>

namespace rekindle::board {

Counts at_least(const Counts& before, Counts now) {
  for (const auto& [cause, count] : before.recoveries)
    now.recoveries[cause] = std::max(now.recoveries[cause], count);
  if (before.recovery_seconds.count() > now.recovery_seconds.count())
    now.recovery_seconds = before.recovery_seconds;
  now.bytes_saved = std::max(now.bytes_saved, before.bytes_saved);
  now.attempts = std::max(now.attempts, before.attempts);
  now.requeues = std::max(now.requeues, before.requeues);
  now.steps_lost = std::max(now.steps_lost, before.steps_lost);
  return now;
}

}  // namespace rekindle::board
