// How two members of a generation authenticate each other on a tcp connection: a challenge and a response in
// each direction, HMAC-SHA256 (RFC 2104) with the generation's secret. No sockets and no clocks in here.
//
//   dialer   -> Hello      magic, term, generation, from, to, integrity, dialer's nonce            72 bytes
//   acceptor -> Challenge  C = (acceptor's nonce, integrity), HMAC("accept", Hello, C)             72 bytes
//   dialer   -> Proof      HMAC("dial", Hello, C)                                                  32 bytes
//   acceptor -> Welcome    magic                                                                    8 bytes
//
// `integrity`: whether the sender's frames have tags. After the handshake both members have an authenticated
// value from the other, and can detect a mismatch. The dialer's frames are tagged with the key
// HMAC("dial key", Hello, C) and, as IV, the first 12 bytes of HMAC("dial iv", Hello, C). The acceptor's
// frames use "accept" in place of "dial".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "exchange/frame_mac.hpp"

namespace rekindle::exchange {

inline constexpr std::size_t kHelloBytes = 72, kChallengeBytes = 72, kProofBytes = 32, kWelcomeBytes = 8;

struct Membership {
  std::uint64_t term = 0, generation = 0;
  int rank = 0;
  int ranks = 1;
  std::string secret;
  bool integrity = true;
};

struct Hello {
  std::uint64_t term = 0, generation = 0;
  std::uint32_t from = 0, to = 0;
  std::uint64_t integrity = 0;
};
// Fails if the bytes are not a hello.
Result<Hello> parse_hello(std::string_view frame);

// 32 random bytes (RAND_bytes).
std::string random_nonce();

class Handshake {
 public:
  static Handshake dial(const Membership& me, int to, std::string nonce);
  static Handshake accept(const Membership& me, std::string nonce);

  std::string opening() const;  // the first frame to send
  std::size_t wants() const;    // bytes of the next frame
  // Takes one frame of wants() bytes; returns the frame to send back. On an error the peer is not a member:
  // close the connection.
  Result<std::string> take(std::string_view frame);
  bool done() const { return state_ == State::kDone; }
  int peer() const { return peer_; }  // -1: not yet known
  // After the handshake: whether the peer's frames have tags, and the keys of the connection.
  bool peer_integrity() const { return peer_integrity_; }
  FrameKeys keys() const;

 private:
  enum class State { kHello, kChallenge, kProof, kWelcome, kDone };
  Handshake(const Membership& me, State state, std::string nonce)
      : me_(&me), state_(state), nonce_(std::move(nonce)) {}
  std::string mac(std::string_view role) const;
  FrameKey key(std::string_view role) const;

  const Membership* me_;
  State state_;
  std::string nonce_;      // of this end
  std::string hello_;      // as sent
  std::string challenge_;  // as sent, without the HMAC
  int peer_ = -1;
  bool dials_ = false;
  bool peer_integrity_ = false;
};

}  // namespace rekindle::exchange
