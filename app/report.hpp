// How every program of rekindle tells of an error: one line on stderr, and the exit code.
#pragma once

#include <cstdio>

#include "base/result.hpp"

namespace rekindle::app {

inline int report(const Error& error) {
  std::fprintf(stderr, "rekindle: %s\n", error.line().c_str());
  return static_cast<int>(error.code);
}

}  // namespace rekindle::app
