// Parts of the records: the last step, the steps without a line in metrics.jsonl, and the newest text for
// status.json.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/result.hpp"
#include "protocol/trainer_messages.hpp"
#include "run/records.hpp"
#include "run/step_set.hpp"

namespace rekindle::actors {

// Whether an attempt with this exit code has saved its state, and may go on.
inline bool has_saved_state(int exit_code) {
  return exit_code == static_cast<int>(ExitCode::kSaved) ||
         exit_code == static_cast<int>(ExitCode::kInterrupted);
}

// The step that was recorded last.
struct LastStep {
  protocol::StepDone done;
  std::size_t voided = 0;  // steps of the run that changed nothing, because their gradient was not finite
};

// The steps that have no line in metrics.jsonl.
class Gaps {
 public:
  // `has_records`: false for a run that continues from a checkpoint without records, such as an audit: such a
  // run has no gaps. `reports`: workers cannot supply the missing lines, so the first step reports the gaps.
  void begin(const run::Recorded& recorded, bool has_records, bool reports) {
    if (has_records) newest_ = recorded.step;
    missing_ = recorded.missing;
    reports_ = reports;
  }
  void on_step(std::uint64_t step) {
    if (newest_ && step > *newest_) missing_.insert(*newest_ + 1, step - 1);
    newest_ = std::max(newest_.value_or(0), step);
    missing_.erase(step);
  }
  void rewind(std::uint64_t step) {
    missing_.erase_after(step);
    if (newest_) newest_ = std::min(*newest_, step);
  }
  run::StepSet& missing() { return missing_; }
  bool take_reports() { return std::exchange(reports_, false); }

 private:
  std::optional<std::uint64_t> newest_;  // step with a line; nullopt: no records, and so no gaps
  run::StepSet missing_;                 // lower steps without a line
  bool reports_ = false;
};

// The newest text to be written: one thread puts texts, another thread takes the last text.
class NewestText {
 public:
  // True: the previous text was taken already, so the writer must be started again.
  bool put(std::string text) {
    const std::scoped_lock lock(mutex_);
    return std::exchange(text_, std::move(text)).empty();
  }
  std::string take() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(text_, "");
  }

 private:
  std::mutex mutex_;
  std::string text_;  // empty: taken
};

}  // namespace rekindle::actors
