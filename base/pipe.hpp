// A pipe, pipe(7).
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>

#include "base/files.hpp"

namespace rekindle {

struct Pipe {
  Fd read, write;
};

// No child inherits its ends, unless it gets them (spawn()).
inline Result<Pipe> make_pipe() {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return forward_error(errno_error("cannot make", "a pipe"));
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

}  // namespace rekindle
