// All readable lines of a small file of records.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "run/records.hpp"

namespace rekindle::run {

inline std::vector<nlohmann::json> read_lines(const FilePath& file) {
  std::vector<nlohmann::json> lines;
  each_line(file, [&lines](const nlohmann::json& line) { lines.push_back(line); });
  return lines;
}

}  // namespace rekindle::run
