// What the programs of rekindle tell their user.
#pragma once

#include <cstdio>
#include <string>

#include "base/result.hpp"

namespace rekindle::app {

// An error: one line on stderr. Returns the exit code.
inline int report(const Error& error) {
  std::fprintf(stderr, "rekindle: %s\n", error.line().c_str());
  return static_cast<int>(error.code);
}

// A line on stdout, there at once also where that is a file.
inline void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

}  // namespace rekindle::app
