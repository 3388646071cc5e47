// The full mesh of connections and the one poll loop that moves frames over it. What is moved is a Transfer's
// matter.
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

// One call's traffic, from one rank's view. A rank's frames arrive in the order in which it sent them. With
// integrity, place() gets verified heads alone, and arrived() is called for a verified payload alone.
class Transfer {
 public:
  virtual ~Transfer() = default;
  virtual std::optional<Outgoing> next_out(int peer) = 0;  // nothing: not now
  virtual bool sent_all(int peer) const = 0;
  virtual bool has_room(int peer) const = 0;  // for whatever frame comes next
  virtual bool received_all(int peer) const = 0;
  // Has the peer not yet sent something that it can send whatever the other ranks do?
  virtual bool is_late(int peer) const = 0;
  virtual Result<std::span<std::byte>> place(int peer, const FrameHead& head) = 0;
  virtual Status arrived(int peer, const FrameHead& head) = 0;
};

class Mesh {
 public:
  Mesh(std::vector<Connection> connections, int wake, std::function<bool()> aborted, WaitingFor& waiting);

  // Until everything is sent and received, or a peer fails, or an abort.
  Status run(Transfer& transfer);

  void shut_down() noexcept;  // from any thread: every peer sees the end

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
