// Frames of text over an inherited stream socket: u32 length (little-endian), then the bytes.
// End of file means that the other process has ended.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/files.hpp"
#include "base/result.hpp"

namespace rekindle {

class Channel {
 public:
  explicit Channel(Fd socket) : socket_(std::move(socket)) {}

  // Both ends of a new socket, close-on-exec. spawn() passes one end to a child.
  static Result<std::pair<Fd, Fd>> pair();

  // From any thread. Blocks while the peer does not read.
  Status send(std::string_view text);
  // Whether the peer has left so many bytes unread that send() may soon block: the peer makes no progress.
  bool congested() const;
  // Whether receive() would return without waiting.
  bool pending() const;
  // One frame; nullopt at end of file. Only from one thread.
  Result<std::optional<std::string>> receive();
  int fd() const { return socket_.get(); }

 private:
  Fd socket_;
  std::mutex sending_;
};

}  // namespace rekindle
