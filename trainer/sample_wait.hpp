// Samples that cannot be read now: a file is missing, or its storage does not answer. The trainer keeps its
// state and tries again, because the storage may come back.
#pragma once

#include <chrono>
#include <optional>

#include "base/result.hpp"
#include "trainer/clock.hpp"
#include "trainer/link.hpp"

namespace rekindle::trainer {

inline constexpr std::chrono::seconds kSamplesPatience{30};

// One for each trainer. It outlives a generation, so that the time limit holds over generations.
class SampleWait {
 public:
  // Samples could not be read: `error` has ErrorKind::kSystem. Success, after a pause: read again. An error
  // of kind kAborted if the generation is aborted. An error of kind kChangedData, which counts as samples
  // that cannot be used, if the time limit has passed or the run is stopping.
  Status try_again(const Error& error, Link& link, const Clock& clock);
  void succeeded() { since_.reset(); }

 private:
  std::optional<Clock::TimePoint> since_;  // of the first of the failures in a row
};

}  // namespace rekindle::trainer
