// The logs of all processes of a run, as one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "run/layout.hpp"
#include "view/line_tail.hpp"

namespace rekindle::view {

struct LogLine {
  std::string time;   // "2026-11-26T09:05:12.326Z"; empty: not known
  std::string level;  // "info", "warning", "error"; empty: not known
  std::string text;   // the whole line, safe to show
};

class RunLogs {
 public:
  // `last_bytes`: of each log that is there at the first call, only the lines of so many bytes at its end.
  explicit RunLogs(run::Layout layout, std::uint64_t last_bytes = UINT64_MAX)
      : layout_(std::move(layout)), last_bytes_(last_bytes) {}

  // The complete lines of all logs that were not there at the last call, by time. A line without a time of
  // its own follows the one before it. `most`: at least so many of the last ones of each file. A file that
  // cannot be read is told once, and left out.
  Result<std::vector<LogLine>> read_new(std::size_t most = SIZE_MAX);

 private:
  struct File {
    explicit File(FilePath path) : tail(std::move(path)) {}
    LineTail tail;
    std::string time = {};  // of its last line
    bool begun = false;
  };
  Status read_new_of(const std::string& name, std::size_t most, std::vector<LogLine>& lines);

  const run::Layout layout_;
  const std::uint64_t last_bytes_;
  std::map<std::string, File> files_;  // by their names
  std::set<std::string> warned_;
};

}  // namespace rekindle::view
