// What must hold for any input: libFuzzer reports an abort.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace rekindle {

inline void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "an input was accepted, but %s\n", what);
  std::abort();
}

}  // namespace rekindle
