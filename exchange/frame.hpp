// The bytes of a tcp connection after the handshake: frames of a head and a payload. With integrity, a tag
// follows the head, and another tag follows a payload that is not empty (frame_mac.hpp):
//
//   off: head 16 | payload
//   on:  head 16 | tag 16 | payload | tag 16
//
// The head has its own tag, so that no field of the head is used before it is verified.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "exchange/frame_mac.hpp"
#include "exchange/socket.hpp"

namespace rekindle::exchange {

enum class FrameKind : std::uint16_t { kHeader = 1, kPart, kSum, kBytes, kFinished };

// Precedes every payload. Little-endian.
struct FrameHead {
  FrameKind kind{};
  std::uint16_t slot = 0;   // kPart: which partial sum
  std::uint32_t call = 0;   // number of the call (mod 2^32), the same on every rank
  std::uint32_t chunk = 0;  // kPart, kSum: number of the chunk in the shard; kBytes: number of the frame
  std::uint32_t bytes = 0;  // of payload
  friend bool operator==(const FrameHead&, const FrameHead&) = default;
};
static_assert(sizeof(FrameHead) == 16);

struct Outgoing {
  FrameHead head;
  std::span<const std::byte> payload;
};

// Sends frames, one after the other.
class FrameWriter {
 public:
  explicit FrameWriter(const std::optional<FrameKey>& key);

  bool busy() const { return busy_; }  // a frame is partly sent
  void begin(const Outgoing& frame);   // the payload must not change until the frame is sent
  IoResult send_some(int fd);

 private:
  std::optional<FrameMac> mac_;
  std::array<std::byte, sizeof(FrameHead) + sizeof(FrameTag)> head_{};
  std::span<const std::byte> payload_;
  FrameTag tag_{};
  std::size_t head_bytes_ = 0, tag_bytes_ = 0;  // of this frame
  std::size_t done_ = 0;
  bool busy_ = false;
};

// Receives frames, one after the other.
class FrameReader {
 public:
  enum class Event {
    kNothing,  // more bytes must come
    kHead,     // head() is valid: call place() for the payload
    kFrame,    // the payload is valid, too
    kAltered   // a tag is wrong
  };
  struct Received {
    Io io = Io::kDone;
    Event event = Event::kNothing;
  };

  explicit FrameReader(const std::optional<FrameKey>& key);

  bool busy() const { return busy_; }  // a frame is partly received
  Received receive_some(int fd);
  const FrameHead& head() const { return head_.frame; }
  // Call after kHead, with head().bytes bytes. If that is 0, the frame is complete: kFrame does not follow.
  void place(std::span<std::byte> payload);

 private:
  Event finish_head();
  Event finish_payload();

  std::optional<FrameMac> mac_;
  struct {
    FrameHead frame;
    FrameTag tag{};
  } head_;
  std::span<std::byte> payload_;
  FrameTag tag_{};
  std::size_t done_ = 0;  // bytes of the head, or of the payload, each including its tag
  bool busy_ = false, in_payload_ = false;
};

}  // namespace rekindle::exchange
