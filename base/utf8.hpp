#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rekindle {

struct Utf8Character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;  // 0: not UTF-8
};

// The first character of a text that is not empty. Source: RFC 3629, section 4.
Utf8Character first_character(std::string_view text);

}  // namespace rekindle
