// Integrity of the frames of a tcp connection: ChaCha20-Poly1305 (RFC 8439) with additional data only, by
// OpenSSL. AES-GMAC would also work, but takes 1.4 times as long (docs/performance.md).
//
// Each direction of a connection has its own key. Each message has a number, which is never sent: the nonce
// contains the number, as in TLS 1.3 (RFC 8446, 5.3). So a message that was changed, repeated, dropped or
// reordered has a wrong tag.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

// NOLINTNEXTLINE(bugprone-reserved-identifier): this is OpenSSL's name
struct evp_cipher_ctx_st;

namespace rekindle::exchange {

struct FrameKey {
  std::array<std::byte, 32> key{};
  std::array<std::byte, 12> iv{};
  friend bool operator==(const FrameKey&, const FrameKey&) = default;
};
using FrameTag = std::array<std::byte, 16>;

// The keys of one connection, as seen from one end.
struct FrameKeys {
  FrameKey send{}, receive{};
};

// The messages of one direction, in order. The tag of message n (from 0) uses the nonce iv XOR n, where n is
// big-endian.
class FrameMac {
 public:
  explicit FrameMac(const FrameKey& key);

  void add(std::span<const std::byte> bytes);
  // The tag of all bytes added since the last call. Starts the next message.
  FrameTag finish();
  // The same, but compares the tag with `expected` in constant time.
  bool finish_with(const FrameTag& expected);

 private:
  struct Free {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  void begin();

  std::unique_ptr<evp_cipher_ctx_st, Free> context_;
  std::array<std::byte, 12> iv_;
  std::uint64_t number_ = 0;  // of the current message
  bool begun_ = false;
};

}  // namespace rekindle::exchange
