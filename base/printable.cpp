#include "base/printable.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "base/utf8.hpp"

namespace rekindle {
namespace {

// Line and paragraph separators, and what changes the direction. Source: Unicode standard annex 9, section 2.
bool misleads(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code <= 0x9F) || code == 0x200E || code == 0x200F ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
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
