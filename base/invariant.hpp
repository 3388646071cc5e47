// Checks what only a bug can bring about.
#pragma once

#include <stdexcept>

namespace rekindle {

// `broken`: what is wrong, if the invariant does not hold. The exception ends a process whose state cannot be
// trusted any more; another process takes its place.
inline void invariant(bool holds, const char* broken) {
  if (!holds) [[unlikely]]
    throw std::logic_error(broken);
}

}  // namespace rekindle
