#include "checkpoint/direct.hpp"

#include <fcntl.h>

namespace rekindle::checkpoint {

bool set_direct(int fd, bool direct) {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && ::fcntl(fd, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

}  // namespace rekindle::checkpoint
