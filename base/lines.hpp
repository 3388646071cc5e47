// The lines of a text that say most: of what a program has printed the last one, because the others led to
// it; of an error of another library the first one, because the others say where.
#pragma once

#include <string>
#include <string_view>

namespace rekindle {

// The last line that is not empty, without its end.
inline std::string last_line_of(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  return std::string(text.substr(text.rfind('\n') + 1));
}

inline std::string first_line_of(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

}  // namespace rekindle
