// Samples that do not come: a file is missing, its storage returns errors, or a read does not return. The
// trainer keeps its state and tries again, because the storage may come back.
#pragma once

#include <chrono>
#include <optional>

#include "base/result.hpp"
#include "trainer/clock.hpp"
#include "trainer/link.hpp"

namespace rekindle::trainer {

// How long an error of kind kNotYet takes. No wait for samples may be longer without a look at the link.
inline constexpr std::chrono::seconds kSampleLook{1};

// One for each trainer. It outlives a generation, so that the time limit holds over generations. Only time
// in which the trainer waits counts, not the time between generations or of a suspended process.
class SampleWait {
 public:
  explicit SampleWait(std::chrono::milliseconds limit) : limit_(limit) {}  // --data-wait

  // The samples that come next could not be read (`error` has kind kSystem), or are not there after
  // kSampleLook (kNotYet). Success: try again; for kSystem, after a pause. An error of kind kAborted if the
  // generation is aborted. An error of kind kUnreadable if the time limit has passed or the run is stopping.
  Status try_again(const Error& error, std::uint64_t step, Link& link, const Clock& clock);
  // True if the trainer has said that it waits.
  bool succeeded();
  void begin_generation() { last_.reset(); }

 private:
  void count(bool late, const Clock& clock);
  Status look(const Error& error, Link& link);
  void leave();

  std::chrono::milliseconds limit_;
  std::chrono::milliseconds waited_{
      0};  // for the samples that come next, in this generation and earlier ones
  std::optional<Clock::TimePoint> last_;  // when the last try began, in this generation
  bool said_ = false;
};

}  // namespace rekindle::trainer
