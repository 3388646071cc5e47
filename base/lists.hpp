// Lists in one text, as options have them.
#pragma once

#include <cstddef>
#include <sstream>
#include <string>
#include <vector>

namespace rekindle {

// The parts of "a,b,c", also empty ones, except behind the last comma.
inline std::vector<std::string> comma_separated(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream in(list);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

// "a, b, c" of its parts, with `between` = ", ".
inline std::string joined(const std::vector<std::string>& parts, const std::string& between) {
  std::string list;
  for (std::size_t i = 0; i < parts.size(); ++i) list += (i == 0 ? "" : between) + parts[i];
  return list;
}

}  // namespace rekindle
