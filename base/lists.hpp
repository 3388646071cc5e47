// Lists in one text, as options have them.
#pragma once

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

}  // namespace rekindle
