// metrics.jsonl and attempts.jsonl: a JSON object a line, appended.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "run/layout.hpp"
#include "run/line_file.hpp"
#include "run/step_set.hpp"

namespace rekindle::run {

// The readable lines of a file; a torn last line is left out. No file: none.
std::vector<nlohmann::json> read_lines(const FilePath& file);

// What metrics.jsonl has, as far as it can be read.
struct Recorded {
  std::uint64_t step = 0;             // the highest with a line of its own
  StepSet missing;                    // lower ones that have none
  std::set<std::uint64_t> evaluated;  // steps whose evaluation is on record
};
Recorded recorded(const Layout& layout);

class MetricsFile {
 public:
  explicit MetricsFile(const Layout& layout) : path_(layout.metrics()), lines_(path_) {}
  // Drops the lines of steps after `step`, then appends from there.
  Status rewind(std::uint64_t step);
  // Lines that cannot be written wait for the next call (LineFile).
  Status append(const nlohmann::json& line) { return lines_.append(line); }
  Status write_waiting() { return lines_.write_waiting(); }
  // Adds the steps whose lines are in memory only.
  void add_unwritten(StepSet& steps) const;

 private:
  FilePath path_;
  LineFile lines_;
};

// The one of `steps` with the highest test accuracy, the earliest of equals; none if none was evaluated.
// An error if the records cannot be read: then nobody can tell.
Result<std::optional<std::uint64_t>> best_evaluated(const Layout& layout,
                                                    const std::set<std::uint64_t>& steps);
std::optional<nlohmann::json> last_evaluation(const Layout& layout);

// Attempts: one line when it begins and one when it ends.
std::uint64_t next_attempt(const Layout& layout);
// The number of the attempt that began last; 1 if none is on record.
std::uint64_t newest_attempt(const Layout& layout);
// Written now or never: an error is for the caller.
Status record_attempt(const Layout& layout, const nlohmann::json& line);

}  // namespace rekindle::run
