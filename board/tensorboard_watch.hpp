// Keeps TensorBoard's files of a run that goes on up to date (--tensorboard).
#pragma once

#include <optional>

#include "base/result.hpp"
#include "board/tensorboard.hpp"
#include "run/layout.hpp"
#include "view/line_tail.hpp"
#include "view/metrics_line.hpp"

namespace rekindle::board {

class TensorBoardWatch {
 public:
  // The run directory belongs to this user, and no other process writes these files.
  explicit TensorBoardWatch(const run::Layout& layout);

  // Writes what is new, a few megabytes of it. Whether there is more. After an error the next call tries
  // again.
  Result<bool> look();
  // At the end: writes all that is left.
  Status finish();

 private:
  Status begin();
  Status read_events();
  Result<bool> read_metrics();

  const FilePath file_of_events_;
  view::LineTail metrics_, events_;
  std::optional<view::LineTail::Slice> slice_;  // of metrics.jsonl, not given yet
  bool begin_events_ = true;                    // the next lines are from the first one on
  view::MetricsLineReader reader_;
  TensorBoardFiles files_;
  bool begun_ = false;
};

}  // namespace rekindle::board
