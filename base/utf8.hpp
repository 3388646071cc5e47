#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rekindle {

struct Utf8Character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;  // 0: not UTF-8
};

// The first character of a text that is not empty. Source: RFC 3629, section 4.
Utf8Character first_character(std::string_view text);

// Of UTF-8. A terminal shows most characters in one column.
std::size_t count_characters(std::string_view text);
// With spaces behind it up to so many characters.
std::string padded(std::string text, std::size_t characters);

}  // namespace rekindle
