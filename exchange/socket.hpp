// Thin wrappers of tcp sockets. All sockets are nonblocking and close on exec.
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

// Listens on `address` (a name or a number), on a free port of `ports`.
Result<Listener> listen_on(const std::string& address, PortRange ports = {});
// Starts to connect. The socket becomes writable when the connection succeeded or failed. `address` is
// numeric, so that no name service can block.
Result<Fd> dial(const std::string& address, std::uint16_t port);
// Empty Fd: no connection is waiting.
Fd accept_from(int listener);
// The result of a connect: an errno, or 0 for success.
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
