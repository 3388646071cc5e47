#include "exchange/frame_mac.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <stdexcept>

namespace rekindle::exchange {
namespace {

constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;  // OpenSSL takes an int

void require(int ok) {
  if (ok != 1) throw std::runtime_error("ChaCha20-Poly1305 of OpenSSL failed");
}

}  // namespace

void FrameMac::Free::operator()(evp_cipher_ctx_st* context) const { ::EVP_CIPHER_CTX_free(context); }

FrameMac::FrameMac(const FrameKey& key) : context_(::EVP_CIPHER_CTX_new()), iv_(key.iv) {
  if (!context_) throw std::runtime_error("EVP_CIPHER_CTX_new failed");
  // Sets the key. begin() sets only the nonce.
  require(::EVP_EncryptInit_ex(context_.get(), ::EVP_chacha20_poly1305(), nullptr,
                               reinterpret_cast<const unsigned char*>(key.key.data()), nullptr));
}

void FrameMac::begin() {
  auto nonce = iv_;
  for (std::size_t i = 0; i < sizeof number_; ++i)
    nonce[nonce.size() - 1 - i] ^= static_cast<std::byte>(number_ >> 8 * i & 0xff);
  require(::EVP_EncryptInit_ex(context_.get(), nullptr, nullptr, nullptr,
                               reinterpret_cast<const unsigned char*>(nonce.data())));
  begun_ = true;
}

void FrameMac::add(std::span<const std::byte> bytes) {
  if (!begun_) begin();
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), kMostAtOnce));
    int taken = 0;
    require(::EVP_EncryptUpdate(context_.get(), nullptr, &taken,
                                reinterpret_cast<const unsigned char*>(part.data()),
                                static_cast<int>(part.size())));
    bytes = bytes.subspan(part.size());
  }
}

FrameTag FrameMac::finish() {
  if (!begun_) begin();
  FrameTag tag;
  int written = 0;
  unsigned char nothing[EVP_MAX_BLOCK_LENGTH];
  require(::EVP_EncryptFinal_ex(context_.get(), nothing, &written));
  require(
      ::EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, static_cast<int>(tag.size()), tag.data()));
  ++number_;
  begun_ = false;
  return tag;
}

bool FrameMac::finish_with(const FrameTag& expected) {
  const FrameTag tag = finish();
  return ::CRYPTO_memcmp(tag.data(), expected.data(), tag.size()) == 0;
}

}  // namespace rekindle::exchange
