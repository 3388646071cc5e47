// The full mesh of connections and the one poll loop that moves frames over it. What is moved is a Transfer's
// matter.
#pragma once

#include <poll.h>

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/files.hpp"
#include "base/result.hpp"
#include "exchange/waiting.hpp"

namespace rekindle::exchange {

enum class FrameKind : std::uint16_t { kHeader = 1, kPart, kSum, kBytes, kFinished };

// Precedes every payload. Little-endian.
struct FrameHead {
  FrameKind kind{};
  std::uint16_t slot = 0;   // kPart: which partial sum
  std::uint32_t call = 0;   // number of the call (mod 2^32): the ranks are in step
  std::uint32_t chunk = 0;  // kPart, kSum: which chunk of the shard; kBytes: which frame
  std::uint32_t bytes = 0;  // of payload
  friend bool operator==(const FrameHead&, const FrameHead&) = default;
};
static_assert(sizeof(FrameHead) == 16);

struct Outgoing {
  FrameHead head;
  std::span<const std::byte> payload;
};

// One call's traffic, from one rank's view. A rank's frames arrive in the order in which it sent them.
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
  Mesh(std::vector<Fd> sockets, int wake, std::function<bool()> aborted, WaitingFor& waiting);

  // Until everything is sent and received, or a peer fails, or an abort.
  Status run(Transfer& transfer);

  void shut_down() noexcept;  // from any thread: every peer sees the end

 private:
  struct Peer {
    Fd fd;
    bool sending = false, receiving = false;  // in the middle of a frame
    Outgoing out;
    std::size_t out_done = 0;
    FrameHead in;
    std::span<std::byte> in_payload;
    std::size_t in_done = 0;  // head and payload
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
