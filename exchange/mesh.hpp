// The full mesh of connections and the poll loop that moves frames over it. A Transfer decides which frames
// are sent.
#pragma once

#include <poll.h>

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "exchange/connection.hpp"
#include "exchange/frame.hpp"
#include "exchange/waiting.hpp"

namespace rekindle::exchange {

// The traffic of one call, as seen from one rank. Frames of a rank arrive in the order in which it sent them.
// With integrity, place() and arrived() are called only with verified heads and verified payloads.
class Transfer {
 public:
  virtual ~Transfer() = default;
  virtual std::optional<Outgoing> next_out(int peer) = 0;  // nullopt: nothing to send now
  virtual bool sent_all(int peer) const = 0;
  virtual bool has_room(int peer) const = 0;  // for the peer's next frame, of any kind
  virtual bool received_all(int peer) const = 0;
  // Whether the peer has not yet sent something that it can send without waiting for other ranks.
  virtual bool is_late(int peer) const = 0;
  virtual Result<std::span<std::byte>> place(int peer, const FrameHead& head) = 0;
  virtual Status arrived(int peer, const FrameHead& head) = 0;
};

class Mesh {
 public:
  Mesh(std::vector<Connection> connections, int wake, std::function<bool()> aborted, WaitingFor& waiting);

  // Returns when everything is sent and received, when a peer fails, or after an abort.
  Status run(Transfer& transfer);

  void shut_down() noexcept;  // from any thread: every peer sees that the connection is closed

 private:
  struct Peer {
    Fd fd;
    FrameWriter out;
    FrameReader in;
  };

  bool done(const Transfer& transfer, int peer) const;
  int whom_to_wait_for(const Transfer& transfer) const;
  Status send(Transfer& transfer, int peer);
  Status receive(Transfer& transfer, int peer);

  std::vector<Peer> peers_;
  int wake_;
  std::function<bool()> aborted_;
  WaitingFor& waiting_;
};

}  // namespace rekindle::exchange
