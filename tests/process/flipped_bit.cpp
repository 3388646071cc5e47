// A library to preload: a network that damages data. When the file REKINDLE_TEST_FLIP exists, one bit of the
// next data that a trainer receives over TCP is flipped, and the file is removed.
#include <dlfcn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace {

constexpr ssize_t kLarge = 10'000;  // bytes: part of a gradient, not a header

const char* file_to_wait_for() {
  std::stringstream arguments;
  arguments << std::ifstream("/proc/self/cmdline").rdbuf();
  return arguments.str().find("rekindle-trainer") == std::string::npos ? nullptr
                                                                       : std::getenv("REKINDLE_TEST_FLIP");
}

bool is_tcp(int fd) {
  int domain = 0;
  socklen_t size = sizeof domain;
  return ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_INET;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) ssize_t recvmsg(int fd, msghdr* message, int flags) {
  using Function = ssize_t (*)(int, msghdr*, int);
  static const auto real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "recvmsg"));
  static const char* const file = file_to_wait_for();
  const ssize_t received = real(fd, message, flags);
  const bool large = received >= kLarge && message->msg_iov[0].iov_len >= static_cast<std::size_t>(kLarge);
  if (file != nullptr && large && is_tcp(fd) && ::unlink(file) == 0)
    // A bit of an exponent.
    static_cast<unsigned char*>(message->msg_iov[0].iov_base)[kLarge / 2 | 3] ^= 0x10;
  return received;
}
