#include "exchange/handshake.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <cstring>
#include <stdexcept>

#include "base/text.hpp"

namespace rekindle::exchange {
namespace {

constexpr std::uint64_t kHelloMagic = 0x314f4c4c45484b52ULL;    // "RKHELLO1"
constexpr std::uint64_t kWelcomeMagic = 0x31454d4f434c4557ULL;  // "WELCOME1"
constexpr std::size_t kNonceBytes = 32, kHmacBytes = 32;

template <class T>
void put(std::string& to, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  to.append(bytes, sizeof value);
}

template <class T>
T get(std::string_view from, std::size_t at) {
  T value;
  std::memcpy(&value, from.data() + at, sizeof value);
  return value;
}

bool same(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

Result<Hello> parse_hello(std::string_view frame) {
  if (frame.size() != kHelloBytes || get<std::uint64_t>(frame, 0) != kHelloMagic) return fail("not a hello");
  return Hello{get<std::uint64_t>(frame, 8), get<std::uint64_t>(frame, 16), get<std::uint32_t>(frame, 24),
               get<std::uint32_t>(frame, 28), get<std::uint64_t>(frame, 32)};
}

std::string random_nonce() {
  unsigned char bytes[32];
  if (RAND_bytes(bytes, sizeof bytes) != 1) throw std::runtime_error("RAND_bytes failed");
  return {reinterpret_cast<const char*>(bytes), sizeof bytes};
}

Handshake Handshake::dial(const Membership& me, int to, std::string nonce) {
  Handshake shake(me, State::kChallenge, std::move(nonce));
  shake.peer_ = to;
  shake.dials_ = true;
  put(shake.hello_, kHelloMagic);
  put(shake.hello_, me.term);
  put(shake.hello_, me.generation);
  put(shake.hello_, static_cast<std::uint32_t>(me.rank));
  put(shake.hello_, static_cast<std::uint32_t>(to));
  put(shake.hello_, std::uint64_t{me.integrity});
  shake.hello_ += shake.nonce_;
  return shake;
}

Handshake Handshake::accept(const Membership& me, std::string nonce) {
  return {me, State::kHello, std::move(nonce)};
}

std::string Handshake::opening() const { return hello_; }

std::size_t Handshake::wants() const {
  switch (state_) {
    case State::kHello:
      return kHelloBytes;
    case State::kChallenge:
      return kChallengeBytes;
    case State::kProof:
      return kProofBytes;
    case State::kWelcome:
      return kWelcomeBytes;
    case State::kDone:
      break;
  }
  return 0;
}

Result<std::string> Handshake::take(std::string_view frame) {
  switch (state_) {
    case State::kHello: {
      REKINDLE_TRY(const Hello hello, parse_hello(frame));
      const bool expected = hello.term == me_->term && hello.generation == me_->generation &&
                            hello.to == static_cast<std::uint32_t>(me_->rank) && hello.from > hello.to &&
                            hello.from < static_cast<std::uint32_t>(me_->ranks);
      if (hello.term != me_->term || hello.generation != me_->generation)
        return fail(str("a hello of generation t", hello.term, ".g", hello.generation));
      if (!expected) return fail("a hello for another rank");
      hello_ = frame;
      peer_ = static_cast<int>(hello.from);
      peer_integrity_ = hello.integrity != 0;
      challenge_ = nonce_;
      put(challenge_, std::uint64_t{me_->integrity});
      state_ = State::kProof;
      return challenge_ + mac("accept");
    }
    case State::kChallenge: {
      challenge_ = frame.substr(0, kChallengeBytes - kHmacBytes);
      if (!same(frame.substr(challenge_.size()), mac("accept")))
        return fail("the acceptor has another secret");
      peer_integrity_ = get<std::uint64_t>(challenge_, kNonceBytes) != 0;
      state_ = State::kWelcome;
      return mac("dial");
    }
    case State::kProof: {
      if (!same(frame, mac("dial"))) return fail("the dialer has another secret");
      state_ = State::kDone;
      std::string welcome;
      put(welcome, kWelcomeMagic);
      return welcome;
    }
    case State::kWelcome:
      if (get<std::uint64_t>(frame, 0) != kWelcomeMagic) return fail("not a welcome");
      state_ = State::kDone;
      return std::string();
    case State::kDone:
      break;
  }
  return fail("bytes after the handshake");
}

FrameKeys Handshake::keys() const {
  const FrameKey dialer = key("dial"), acceptor = key("accept");
  return dials_ ? FrameKeys{dialer, acceptor} : FrameKeys{acceptor, dialer};
}

FrameKey Handshake::key(std::string_view role) const {
  FrameKey key;
  std::memcpy(key.key.data(), mac(str(role, " key")).data(), key.key.size());
  std::memcpy(key.iv.data(), mac(str(role, " iv")).data(), key.iv.size());
  return key;
}

std::string Handshake::mac(std::string_view role) const {
  const std::string text = str(role, ':', hello_, challenge_);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (HMAC(EVP_sha256(), me_->secret.data(), static_cast<int>(me_->secret.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest, &size) == nullptr)
    throw std::runtime_error("HMAC failed");
  return {reinterpret_cast<const char*>(digest), size};
}

}  // namespace rekindle::exchange
