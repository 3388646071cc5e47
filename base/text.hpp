// str(a, b, c): the arguments' text, one after the other. (g++ 12 has no <format>; LibTorch and
// spdlog bring two different fmt libraries, so headers must not use either.)
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>

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

// Whether a text has characters that a terminal or a line-based file interprets: Unicode's C0 and C1
// (ECMA-48) and DEL, line ends included. C1 in UTF-8 is 0xc2 and 0x80 to 0x9f.
inline bool has_control_characters(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (c < 0x20 || c == 0x7f || (c == 0xc2 && next >= 0x80 && next < 0xa0)) return true;
  }
  return false;
}

}  // namespace rekindle
