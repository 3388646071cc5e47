// Thin wrappers of tcp sockets. Everything is nonblocking and closes on exec.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/files.hpp"
#include "base/network.hpp"
#include "base/result.hpp"

namespace rekindle::exchange {

struct Listener {
  Fd fd;
  std::string address;  // numeric
  std::uint16_t port = 0;
};

// On a free port of `address` (a name or a number), of these.
Result<Listener> listen_on(const std::string& address, PortRange ports = {});
// Begins to connect; the socket becomes writable when it is decided. `address` is numeric: no name service
// can block.
Result<Fd> dial(const std::string& address, std::uint16_t port);
// Empty Fd: nobody is waiting.
Fd accept_from(int listener);
// Has the connection come about? Errno, or 0.
int connect_error(int fd);

enum class Io { kDone, kWouldBlock, kClosed };
struct IoResult {
  Io io = Io::kDone;
  std::size_t bytes = 0;
};
// Fills first `to`, then `more`, in one call.
IoResult receive_some(int fd, std::span<std::byte> to, std::span<std::byte> more = {});
// Sends first `head`, then `body`, then `tail`, in one call.
IoResult send_some(int fd, std::span<const std::byte> head, std::span<const std::byte> body = {},
                   std::span<const std::byte> tail = {});

}  // namespace rekindle::exchange
