// str(a, b, c): the arguments' text, one after the other. (g++ 12 has no <format>; LibTorch and
// spdlog bring two different fmt libraries, so neither may show in a header.)
#pragma once

#include <cstdint>
#include <sstream>
#include <string>

namespace rekindle {

template <class... Parts>
std::string str(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

// "1 step", "2 steps"
inline std::string counted(std::uint64_t count, const std::string& noun) {
  return str(count, " ", noun, count == 1 ? "" : "s");
}

}  // namespace rekindle
