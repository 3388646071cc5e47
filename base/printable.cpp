#include "base/printable.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "base/utf8.hpp"

namespace rekindle {
namespace {

struct Range {
  std::uint32_t first, last;
};
constexpr Range kMisleading[] = {
    {0x00, 0x1F},        // C0
    {0x7F, 0x9F},        // delete, and C1
    {0xAD, 0xAD},        // a soft hyphen, which is invisible
    {0x061C, 0x061C},    // changes the direction
    {0x180E, 0x180E},    // has no width
    {0x200B, 0x200F},    // have no width, or change the direction
    {0x2028, 0x202E},    // line and paragraph separators; change the direction
    {0x2060, 0x206F},    // have no width, or change the direction
    {0xFEFF, 0xFEFF},    // a byte order mark, which has no width
    {0xFFF9, 0xFFFB},    // annotations
    {0xE0000, 0xE007F},  // tags, which are invisible
};

// Control characters, line ends, and characters that change the direction or are invisible. Source: the
// characters of Unicode's category Cf, without the visible ones; Unicode standard annex 9, section 2.
bool misleads(std::uint32_t code) {
  return std::ranges::any_of(
      kMisleading, [code](const Range& range) { return code >= range.first && code <= range.last; });
}

std::string escape(std::uint32_t code) {
  if (code == '\n') return "\\n";
  if (code == '\r') return "\\r";
  if (code == '\t') return "\\t";
  char text[16];
  std::snprintf(text, sizeof text, code < 0x80 ? "\\x%02x" : "\\u{%04x}", code);
  return text;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Character next = first_character(text);
    const std::size_t bytes = next.bytes > 0 ? next.bytes : 1;
    if (next.bytes == 0) {
      char byte[8];
      std::snprintf(byte, sizeof byte, "\\x%02x", static_cast<std::uint8_t>(text[0]));
      out += byte;
    } else if (misleads(next.code)) {
      out += escape(next.code);
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return out;
}

}  // namespace rekindle
