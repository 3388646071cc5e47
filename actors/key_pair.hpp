// The key pair that this process's connections use. OpenSSL's functions have no other place to keep it
// (openssl_calls.cpp).
#pragma once

#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace rekindle::actors {

template <auto Free>
struct OpenSslDeleter {
  template <class T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};
using PrivateKey = std::unique_ptr<EVP_PKEY, OpenSslDeleter<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, OpenSslDeleter<X509_free>>;
using Bio = std::unique_ptr<BIO, OpenSslDeleter<BIO_free_all>>;

// The SHA-256 of a certificate, 64 lower-case digits; empty: there is no certificate.
std::string fingerprint_of(const X509* certificate);

class KeyPair {
 public:
  // The pair of this process; from any thread.
  static KeyPair& current();
  // Whether a text is a certificate followed by the matching private key. take() uses such a pair for new
  // connections; existing connections stay.
  bool take(std::string_view pem);
  static bool is_pair(std::string_view pem);
  // Like OpenSSL's functions of similar names: 1, or 0 if there is no pair.
  int use_certificate(SSL_CTX* context);
  int use_private_key(SSL_CTX* context);
  int trust_certificate(SSL_CTX* context);
  std::string fingerprint();  // of the certificate

 private:
  std::mutex mutex_;
  Certificate certificate_;
  PrivateKey key_;
};

}  // namespace rekindle::actors
