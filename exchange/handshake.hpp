// How two members of a generation recognise each other on a tcp connection: a challenge and a response each
// way, HMAC-SHA256 (RFC 2104) with the generation's secret. Bytes in, bytes out; no sockets, no clocks.
//
//   dialer   -> Hello      magic, term, generation, from, to, dialer's nonce          64 bytes
//   acceptor -> Challenge  acceptor's nonce, HMAC("accept", Hello, acceptor's nonce)  64 bytes
//   dialer   -> Proof      HMAC("dial", Hello, acceptor's nonce)                      32 bytes
//   acceptor -> Welcome    magic                                                       8 bytes
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace rekindle::exchange {

inline constexpr std::size_t kHelloBytes = 64, kChallengeBytes = 64, kProofBytes = 32, kWelcomeBytes = 8;

struct Membership {
  std::uint64_t term = 0, generation = 0;
  int rank = 0;
  int ranks = 1;
  std::string secret;
};

struct Hello {
  std::uint64_t term = 0, generation = 0;
  std::uint32_t from = 0, to = 0;
};
// Empty for bytes that are no hello at all.
Result<Hello> parse_hello(std::string_view frame);

// 32 random bytes (RAND_bytes).
std::string random_nonce();

class Handshake {
 public:
  static Handshake dial(const Membership& me, int to, std::string nonce);
  static Handshake accept(const Membership& me, std::string nonce);

  std::string opening() const;  // what to send first
  std::size_t wants() const;    // bytes of the next frame
  // Takes one frame of wants() bytes; gives what to send back. An error means a stranger: close the
  // connection.
  Result<std::string> take(std::string_view frame);
  bool done() const { return state_ == State::kDone; }
  int peer() const { return peer_; }  // -1: not known yet

 private:
  enum class State { kHello, kChallenge, kProof, kWelcome, kDone };
  Handshake(const Membership& me, State state, std::string nonce)
      : me_(&me), state_(state), nonce_(std::move(nonce)) {}
  std::string mac(std::string_view role, std::string_view acceptor_nonce) const;

  const Membership* me_;
  State state_;
  std::string nonce_;  // mine
  std::string hello_;  // as sent
  int peer_ = -1;
};

}  // namespace rekindle::exchange
