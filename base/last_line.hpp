// The last line of what a program has printed: the others led to it.
#pragma once

#include <string>
#include <string_view>

namespace rekindle {

// The last line that is not empty, without its end.
inline std::string last_line_of(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  return std::string(text.substr(text.rfind('\n') + 1));
}

}  // namespace rekindle
