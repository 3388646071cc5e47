// metrics.jsonl, attempts.jsonl and events.jsonl: append-only files with one JSON object per line.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

#include "base/result.hpp"
#include "run/layout.hpp"
#include "run/line_file.hpp"
#include "run/step_set.hpp"

namespace rekindle::run {

// The most bytes of attempts.jsonl and metrics.jsonl: a longer file is not read. An attempt has six lines of
// about 200 bytes, and a step has one line of about 400. So a run with an attempt every ten minutes reaches
// the limit in a year, and a run with 90 steps a second in six weeks.
inline constexpr std::uint64_t kMostAttemptsBytes = std::uint64_t{64} << 20;
inline constexpr std::uint64_t kMostMetricsBytes = std::uint64_t{128} << 30;
// An error (ExitCode::kConfig) if one of the two files is longer.
Status check_records(const Layout& layout);

// Visits the readable lines of a file, in order, up to the first error. Visits none if the file is missing or
// too long.
void each_line(const FilePath& file, const std::function<void(const nlohmann::json&)>& visit);

// The readable content of metrics.jsonl.
struct Recorded {
  std::uint64_t step = 0;             // the highest step with a step line
  StepSet missing;                    // lower steps without a step line
  std::set<std::uint64_t> evaluated;  // steps whose evaluation is on record
  std::set<std::uint64_t> voided;     // steps that changed nothing
  bool given_up = false;              // `give_up` returned true before the end of the file
  Status read;                        // an error: a part of the file, or the whole file, could not be read
};
// `give_up` is called repeatedly during the read, which may take minutes.
Recorded recorded(const Layout& layout, const std::function<bool()>& give_up = {});

class MetricsFile {
 public:
  explicit MetricsFile(const Layout& layout) : path_(layout.metrics()), lines_(path_) {}
  // Removes the lines of steps after `step`; later lines are appended after the rest. If the file cannot be
  // read completely, no line is removed.
  Status rewind(std::uint64_t step);
  // Lines that cannot be written stay pending for the next call (LineFile).
  Status append(const nlohmann::json& line) { return lines_.append(line); }
  Status write_waiting() { return lines_.write_pending(); }
  // Adds the steps whose lines are only in memory.
  void add_unwritten(StepSet& steps) const;

 private:
  FilePath path_;
  LineFile lines_;
};

// The value by which evaluations are compared, read from --best-metric: NAME, min:NAME or max:NAME. The
// lowest value of a NAME that ends in "loss" is the best, else the highest. Without a name: the highest
// accuracy, or if the last evaluation has none, the lowest loss.
struct BestBy {
  std::string name;
  bool lowest = false;
};
BestBy best_by(const std::string& best_metric);

// The step of `steps` with the best evaluation; of equal ones, the earliest. nullopt if no step was
// evaluated, or none has that value. An error if the records cannot be read.
Result<std::optional<std::uint64_t>> best_evaluated(const Layout& layout,
                                                    const std::set<std::uint64_t>& steps, const BestBy& by);
std::optional<nlohmann::json> last_evaluation(const Layout& layout);

// Attempts: one line at the begin and one at the end of each.
std::uint64_t next_attempt(const Layout& layout);
// The number of the newest attempt; 1 if no attempt is recorded.
std::uint64_t newest_attempt(const Layout& layout);
// The event in attempts.jsonl of a job that is submitted for a run that has ended. Its attempt has not begun.
inline constexpr const char* kSubmitted = "submitted";
// Not retried: the caller handles an error.
Status record_attempt(const Layout& layout, const nlohmann::json& line);

// A line of events.jsonl (docs/board.md). The time is added here. Not retried: a lost event harms nothing.
Status record_event(const Layout& layout, const std::string& event, nlohmann::json more);

// The last request to Slurm, from requeue.json; an empty object if the file cannot be read.
nlohmann::json last_intent(const Layout& layout);

}  // namespace rekindle::run
