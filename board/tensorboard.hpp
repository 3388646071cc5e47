// TensorBoard's files of a run: scalars in RUN_DIR/tensorboard, what happened to the run as text in
// RUN_DIR/tensorboard/events. TensorBoard shows the second folder as a run of its own.
//
// The files only grow. When the run goes back to an earlier step, a SessionLog.START makes TensorBoard forget
// the later values, also a TensorBoard that has read them already; files that are written anew would not. A
// text would be forgotten, too, so texts have a folder without STARTs. A process that goes on in place of
// another one finds what is in the files, and writes only what is missing or has changed.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "board/event_files.hpp"
#include "run/layout.hpp"
#include "view/metrics_line.hpp"

namespace rekindle::board {

// Who writes, and when it began.
struct Writer {
  std::string name;           // host and pid, as a part of a file's name
  std::uint64_t seconds = 0;  // since 1970
};

// Seconds since 1970 of "2026-11-26T12:13:53Z" or "2026-11-26T12:13:53.120Z".
std::optional<double> seconds_of(std::string_view utc);

// The lines of metrics.jsonl as scalars, without those that TensorBoard has already.
class ScalarFiles {
 public:
  ScalarFiles(const FilePath& folder, const Writer& writer);

  // Lines follow from the first one of metrics.jsonl on: at first, and when the file was written anew
  // (view::LineTail).
  Status begin();
  // A late line, of a step before that of the last one, is left out: TensorBoard would forget the steps
  // between.
  void on_line(const view::MetricsLine& line);
  // Writes if much waits: for who gives many lines.
  Status make_room();
  // All lines that the file has now were given: TensorBoard forgets what is not among them.
  void caught_up();
  Status write() { return files_.write(); }

 private:
  struct Known {
    std::uint64_t step = 0, hash = 0;  // of the event's bytes
  };
  // The steps, or the evaluations; their steps ascend.
  struct Course {
    std::vector<Known> known;           // in the files, and not forgotten
    std::size_t next = 0;               // those before have been given again
    std::optional<std::uint64_t> last;  // the step that was given or written last
  };
  Course& course_of(std::string_view first_tag);
  void forget_from(std::uint64_t step);

  EventFiles files_;
  std::array<Course, 2> courses_;
  double wall_time_;  // of the last line that had one
};

// The lines of events.jsonl as texts.
class TextFiles {
 public:
  TextFiles(const FilePath& folder, const Writer& writer);

  // Lines follow from the first one of events.jsonl on.
  Status begin();
  void on_event(const nlohmann::json& line);
  Status write() { return files_.write(); }

 private:
  EventFiles files_;
  std::vector<std::uint64_t> known_;   // hashes of the events in the files
  std::size_t next_ = 0;               // those before have been given again
  std::optional<std::uint64_t> last_;  // the step of the last text
  double wall_time_;                   // of the last line that had one
};

class TensorBoardFiles {
 public:
  // The run directory must belong to this user. Only one process at a time may write.
  TensorBoardFiles(const run::Layout& layout, const Writer& writer);

  // To be called before the first line of the file, and before all its lines are given anew.
  Status begin_metrics() { return scalars_.begin(); }
  Status begin_events() { return texts_.begin(); }
  void on_metrics(const view::MetricsLine& line) { scalars_.on_line(line); }
  Status make_room() { return scalars_.make_room(); }
  void on_event(const nlohmann::json& line) { texts_.on_event(line); }
  // All lines that the files have now were given. Writes at most once a second, by the clock of
  // base/clock.hpp.
  Status caught_up(std::chrono::milliseconds now);
  // Writes the rest.
  Status finish();

 private:
  ScalarFiles scalars_;
  TextFiles texts_;
  std::optional<std::chrono::milliseconds> written_;  // when
};

}  // namespace rekindle::board
