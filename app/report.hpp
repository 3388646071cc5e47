// Prints messages of the programs for the user. Text from a file, a name or another machine must be printed
// by these functions, which escape control characters (base/printable.hpp).
#pragma once

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>

#include "base/printable.hpp"
#include "base/result.hpp"

namespace rekindle::app {

// An error: one line on stderr. Returns the exit code.
inline int report(const Error& error) {
  std::fprintf(stderr, "rekindle: %s\n", printable(error.line()).c_str());
  return static_cast<int>(error.code);
}

// The exit code of a command; an error is reported.
inline int exit_code_of(const Status& status) { return status ? 0 : report(status.error()); }

// A line on stderr that is not an error.
inline void warn(const std::string& line) { std::fprintf(stderr, "rekindle: %s\n", printable(line).c_str()); }

// A line on stdout, flushed at once even if stdout is a file.
inline void say(const std::string& line) {
  std::printf("%s\n", printable(line).c_str());
  std::fflush(stdout);
}

// A text of several lines.
inline void say_lines(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    say(std::string(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace rekindle::app
