// The numbers of a line of metrics.jsonl.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rekindle::view {

struct MetricsLine {
  std::uint64_t step = 0;                                    // at most INT64_MAX
  std::string_view at;                                       // UTC, "2026-11-26T12:13:53Z"; empty: not known
  std::vector<std::pair<std::string_view, double>> numbers;  // without the step; all finite, each name once
};

// Reads about 1 GB/s of the lines that a run writes: one flat object without spaces, its keys in ascending
// order. All other lines go through nlohmann, which reads 65 MB/s. (RapidJSON reads 400 MB/s, but Debian 12's
// has CVE-2024-38517, and simdjson has no static library there.)
class MetricsLineReader {
 public:
  // Nullptr if the line is no JSON object, or has no step. The texts are in `line` or in this reader, so they
  // are valid until the next call.
  const MetricsLine* read(std::string_view line);

 private:
  bool read_plain(std::string_view line);
  bool read_any(std::string_view line);

  MetricsLine line_;
  std::vector<std::string> names_;  // of a line that is not plain
  std::string at_;                  // of such a line
};

}  // namespace rekindle::view
