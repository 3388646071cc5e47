#include "actors/key_pair.hpp"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>

#include <span>
#include <utility>

namespace rekindle::actors {
namespace {

std::pair<Certificate, PrivateKey> read(std::string_view pem) {
  const Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  Certificate certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  PrivateKey key(certificate ? PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr) : nullptr);
  // Rekindle makes only EC keys, and OpenSSL may refuse another kind later.
  const bool fits = key && EVP_PKEY_base_id(key.get()) == EVP_PKEY_EC &&
                    X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (!fits) return {};
  return {std::move(certificate), std::move(key)};
}

}  // namespace

std::string fingerprint_of(const X509* certificate) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned count = 0;
  if (certificate == nullptr || X509_digest(certificate, EVP_sha256(), bytes, &count) != 1) return "";
  std::string text;
  for (const unsigned char byte : std::span(bytes, count)) {
    text += kDigits[byte / 16];
    text += kDigits[byte % 16];
  }
  return text;
}

KeyPair& KeyPair::current() {
  static auto* const one = new KeyPair;  // never destroyed: CAF's threads may outlive main's statics
  return *one;
}

bool KeyPair::is_pair(std::string_view pem) { return read(pem).second != nullptr; }

bool KeyPair::take(std::string_view pem) {
  auto [certificate, key] = read(pem);
  if (!key) return false;
  const std::scoped_lock lock(mutex_);
  certificate_ = std::move(certificate);
  key_ = std::move(key);
  return true;
}

int KeyPair::use_certificate(SSL_CTX* context) {
  const std::scoped_lock lock(mutex_);
  return certificate_ ? SSL_CTX_use_certificate(context, certificate_.get()) : 0;
}

int KeyPair::use_private_key(SSL_CTX* context) {
  const std::scoped_lock lock(mutex_);
  return key_ ? SSL_CTX_use_PrivateKey(context, key_.get()) : 0;
}

int KeyPair::trust_certificate(SSL_CTX* context) {
  const std::scoped_lock lock(mutex_);
  X509_STORE* store = SSL_CTX_get_cert_store(context);
  // The pair lasts for one attempt, and only who has its key can connect. The certificate's time would keep
  // out a machine whose clock is wrong.
  return certificate_ && X509_STORE_set_flags(store, X509_V_FLAG_NO_CHECK_TIME) == 1
             ? X509_STORE_add_cert(store, certificate_.get())
             : 0;
}

std::string KeyPair::fingerprint() {
  const std::scoped_lock lock(mutex_);
  return fingerprint_of(certificate_.get());
}

}  // namespace rekindle::actors
