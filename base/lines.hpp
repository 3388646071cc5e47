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

// What an exception says, without a stack of calls. Some of TorchScript's begin with an empty line; those of
// its interpreter say first where they come from, and the reason at the end.
inline std::string line_of_exception(std::string_view what) {
  while (what.starts_with('\n')) what.remove_prefix(1);
  const std::string first = first_line_of(what);
  return first.find("in the TorchScript interpreter") != std::string::npos ? last_line_of(what) : first;
}

}  // namespace rekindle
