#include "actors/tls_keys.hpp"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/files.hpp"
#include "base/text.hpp"

namespace rekindle::actors {
namespace {

template <auto Free>
struct Deleter {
  template <class T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Deleter<X509_free>>;
using Bio = std::unique_ptr<BIO, Deleter<BIO_free_all>>;

constexpr long kDay = 24L * 3600;

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

Certificate self_signed(EVP_PKEY* key) {
  Certificate certificate(X509_new());
  X509* x = certificate.get();
  X509_set_version(x, 2);
  std::uint64_t serial = 0;
  RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(x), serial >> 1);
  X509_gmtime_adj(X509_getm_notBefore(x), -kDay);
  X509_gmtime_adj(X509_getm_notAfter(x), 3650 * kDay);
  X509_set_pubkey(x, key);
  X509_NAME* name = X509_get_subject_name(x);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("rekindle run"),
                             -1, -1, 0);
  X509_set_issuer_name(x, name);
  if (X509_EXTENSION* extension =
          X509V3_EXT_conf_nid(nullptr, nullptr, NID_basic_constraints, "critical,CA:TRUE")) {
    X509_add_ext(x, extension, -1);
    X509_EXTENSION_free(extension);
  }
  return X509_sign(x, key, EVP_sha256()) > 0 ? std::move(certificate) : Certificate();
}

Result<std::string> new_pair() {
  const Key key(EVP_EC_gen("P-256"));
  const Certificate certificate = key ? self_signed(key.get()) : Certificate();
  const Bio bio(BIO_new(BIO_s_mem()));
  if (!certificate || PEM_write_bio_X509(bio.get(), certificate.get()) != 1 ||
      PEM_write_bio_PrivateKey(bio.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return fail("OpenSSL could not make the run's key pair");
  }
  return text_of(bio.get());
}

// A certificate, and behind it the private key that belongs to it.
bool is_pair(std::string_view pem) {
  const Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  const Certificate certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  const Key key(certificate ? PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr) : nullptr);
  const bool fits = key && X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  return fits;
}

}  // namespace

Status ensure_keys(const run::Layout& layout) {
  REKINDLE_CHECK(make_directories(layout.keys(), 0700));
  std::error_code code;
  // One file holds both until it is split, so that two creators cannot mix a key with another's certificate.
  const auto both = layout.keys() / "run.pem";
  if (!std::filesystem::exists(both, code) && !code) {
    REKINDLE_TRY(const std::string pair, new_pair());
    REKINDLE_TRY(const bool ours, create_exclusively(both, pair, 0600));
    static_cast<void>(ours);
  }
  REKINDLE_TRY(std::string pem, read_text(both));
  if (!is_pair(pem)) {
    const std::string halves =
        read_text(layout.certificate()).value_or("") + read_text(layout.private_key()).value_or("");
    if (is_pair(halves)) {
      pem = halves;
      REKINDLE_CHECK(replace_file(both, pem, 0600));
    }
  }
  const std::size_t border = pem.find("-----BEGIN PRIVATE KEY");
  if (border == std::string::npos || !is_pair(pem))
    return fail(ExitCode::kConfig, str(both.string(), " is damaged"),
                str("when no process of this run is left, remove ", layout.keys().string(),
                    ": the next attempt makes a new key pair"));
  // A disk that was full may have left an empty file, and CAF ends the process that reads one.
  const auto half = [](const std::filesystem::path& path, std::string_view text) -> Status {
    if (read_text(path).value_or("") == text) return {};
    return replace_file(path, text, 0600);
  };
  REKINDLE_CHECK(half(layout.certificate(), std::string_view(pem).substr(0, border)));
  return half(layout.private_key(), std::string_view(pem).substr(border));
}

Status remember_keys(const run::Layout& layout) {
  const std::unique_ptr<SSL_CTX, Deleter<SSL_CTX_free>> context(SSL_CTX_new(TLS_method()));
  const std::string certificate = layout.certificate(), key = layout.private_key();
  if (context && SSL_CTX_use_certificate_chain_file(context.get(), certificate.c_str()) == 1 &&
      SSL_CTX_use_PrivateKey_file(context.get(), key.c_str(), SSL_FILETYPE_PEM) == 1 &&
      SSL_CTX_check_private_key(context.get()) == 1)
    return {};
  return fail(str("cannot read the run's key pair in ", layout.keys().string()));
}

}  // namespace rekindle::actors
