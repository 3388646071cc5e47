#include "base/channel.hpp"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/text.hpp"

namespace rekindle {
namespace {

constexpr std::size_t kMaxFrame = 256u << 20;
constexpr int kMuch = 64 << 10;  // bytes unread; a socket holds about 200 KiB

// False at end of file before the first byte.
Result<bool> read_exactly(int fd, char* out, std::size_t bytes) {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t n = ::recv(fd, out + done, bytes - done, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == ECONNRESET) return false;
    if (n < 0) return fail(str("cannot read from a process: ", std::strerror(errno)));
    if (n == 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace

Result<std::pair<Fd, Fd>> Channel::pair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
    return fail(str("cannot make a socket pair: ", std::strerror(errno)));
  }
  return std::pair(Fd(fds[0]), Fd(fds[1]));
}

Status Channel::send(std::string_view text) {
  std::string frame(4, '\0');
  for (std::size_t i = 0; i < 4; ++i) frame[i] = static_cast<char>(text.size() >> (8 * i));
  frame += text;
  const std::scoped_lock lock(sending_);
  for (std::size_t done = 0; done < frame.size();) {
    const ssize_t n = ::send(socket_.get(), frame.data() + done, frame.size() - done, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(str("cannot write to a process: ", std::strerror(errno)));
    done += static_cast<std::size_t>(n);
  }
  return {};
}

bool Channel::pending() const {
  pollfd wait{socket_.get(), POLLIN, 0};
  return ::poll(&wait, 1, 0) > 0;
}

bool Channel::congested() const {
  int unread = 0;
  return ::ioctl(socket_.get(), SIOCOUTQ, &unread) == 0 && unread > kMuch;
}

Result<std::optional<std::string>> Channel::receive() {
  std::array<char, 4> head{};
  REKINDLE_TRY(const bool open, read_exactly(socket_.get(), head.data(), head.size()));
  if (!open) return std::optional<std::string>();
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < 4; ++i) bytes |= std::size_t{static_cast<unsigned char>(head[i])} << (8 * i);
  if (bytes > kMaxFrame)
    return fail("a process sent a frame that is too large", "are all processes from the same build?");
  std::string text(bytes, '\0');
  REKINDLE_TRY(const bool whole, read_exactly(socket_.get(), text.data(), bytes));
  if (!whole) return std::optional<std::string>();
  return std::optional(std::move(text));
}

}  // namespace rekindle
