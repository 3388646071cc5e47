#pragma once

#include <algorithm>

namespace rekindle {

// How long to wait after `failures` earlier failures: `first`, doubled each time, and never more than
// `longest`.
template <class Duration>
Duration backoff(Duration first, Duration longest, int failures) {
  return std::min<Duration>(longest, first * (1 << std::min(failures, 16)));
}

}  // namespace rekindle
