// arc4random() of glibc 2.36, which Debian's libstdc++ calls for std::random_device: so that older ones
// suffice.
#include <sys/random.h>

#include <cerrno>
#include <cstdint>
#include <exception>

extern "C" [[gnu::visibility("hidden")]] std::uint32_t arc4random() noexcept {
  std::uint32_t number = 0;
  while (::getrandom(&number, sizeof number, 0) != sizeof number)
    if (errno != EINTR) std::terminate();
  return number;
}
