#include "exchange/socket.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "base/text.hpp"

namespace rekindle::exchange {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Result<Addresses> resolve(const std::string& address, std::uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(address.c_str(), str(port).c_str(), &hints, &found);
  if (error != 0) return fail(str("address '", address, "': ", ::gai_strerror(error)));
  return Addresses(found, &::freeaddrinfo);
}

Fd open_socket(const addrinfo& to) {
  Fd fd(::socket(to.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  return fd;
}

void send_small_frames_at_once(int fd) {
  const int one = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

IoResult outcome(ssize_t n) {
  if (n > 0) return {Io::kDone, static_cast<std::size_t>(n)};
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return {Io::kWouldBlock};
  return {Io::kClosed};
}

}  // namespace

namespace {

Result<Fd> listen_at(const std::string& address, std::uint16_t port) {
  REKINDLE_TRY(const Addresses found, resolve(address, port, AI_PASSIVE));
  Fd fd = open_socket(*found);
  // Connections of an earlier trainer that have just ended do not block the port.
  const int one = 1;
  if (port != 0) ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  // The longest queue that the system allows: hellos wait in it until this trainer gets its plan.
  if (!fd || ::bind(fd.get(), found->ai_addr, found->ai_addrlen) != 0 || ::listen(fd.get(), SOMAXCONN) != 0)
    return fail(str("cannot listen on '", address, "': ", std::strerror(errno)));
  return fd;
}

Result<Fd> listen_at(const std::string& address, PortRange ports) {
  for (int port = ports.first; port < ports.last; ++port) {
    if (auto fd = listen_at(address, static_cast<std::uint16_t>(port))) return fd;
  }
  auto fd = listen_at(address, ports.last);
  if (fd || ports.last == 0) return fd;
  return fail(str(fd.error().what, " (no port from ", ports.first, " to ", ports.last, " is free)"),
              "give more with --port-range: one for the coordinator and one for each trainer of a machine");
}

}  // namespace

Result<Listener> listen_on(const std::string& address, PortRange ports) {
  Listener listener;
  REKINDLE_TRY(listener.fd, listen_at(address, ports));
  const int fd = listener.fd.get();
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size);
  char host[NI_MAXHOST] = {}, port[NI_MAXSERV] = {};
  const int error = ::getnameinfo(reinterpret_cast<sockaddr*>(&bound), size, host, sizeof host, port,
                                  sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
  if (error != 0) return fail(str("cannot listen on '", address, "': ", ::gai_strerror(error)));
  listener.address = host;
  listener.port = static_cast<std::uint16_t>(std::stoi(port));
  return listener;
}

Result<Fd> dial(const std::string& address, std::uint16_t port) {
  REKINDLE_TRY(const Addresses found, resolve(address, port, AI_NUMERICHOST));
  Fd fd = open_socket(*found);
  if (!fd) return fail(str("socket: ", std::strerror(errno)));
  send_small_frames_at_once(fd.get());
  if (::connect(fd.get(), found->ai_addr, found->ai_addrlen) != 0 && errno != EINPROGRESS)
    return fail(str("cannot connect to ", address, " port ", port, ": ", std::strerror(errno)));
  return fd;
}

Fd accept_from(int listener) {
  Fd fd(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (fd) send_small_frames_at_once(fd.get());
  return fd;
}

int connect_error(int fd) {
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error;
}

IoResult receive_some(int fd, std::span<std::byte> to, std::span<std::byte> more) {
  iovec parts[] = {{to.data(), to.size()}, {more.data(), more.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = std::size(parts);
  return outcome(::recvmsg(fd, &message, 0));
}

IoResult send_some(int fd, std::span<const std::byte> head, std::span<const std::byte> body,
                   std::span<const std::byte> tail) {
  iovec parts[] = {{const_cast<std::byte*>(head.data()), head.size()},
                   {const_cast<std::byte*>(body.data()), body.size()},
                   {const_cast<std::byte*>(tail.data()), tail.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = std::size(parts);
  return outcome(::sendmsg(fd, &message, MSG_NOSIGNAL));
}

}  // namespace rekindle::exchange
