#include "actors/tls_keys.hpp"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

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

}  // namespace

Status ensure_keys(const run::Layout& layout) {
  REKINDLE_CHECK(make_directories(layout.keys(), 0700));
  std::error_code code;
  // One file holds both until it is split, so that two creators cannot mix a key with another's certificate.
  const auto both = layout.keys() / "run.pem";
  if (!std::filesystem::exists(both, code)) {
    const Key key(EVP_EC_gen("P-256"));
    const Certificate certificate = key ? self_signed(key.get()) : Certificate();
    const Bio bio(BIO_new(BIO_s_mem()));
    if (!certificate || PEM_write_bio_X509(bio.get(), certificate.get()) != 1 ||
        PEM_write_bio_PrivateKey(bio.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1) {
      return fail("OpenSSL could not make the run's key pair");
    }
    REKINDLE_TRY(const bool ours, create_exclusively(both, text_of(bio.get()), 0600));
    static_cast<void>(ours);
  }
  REKINDLE_TRY(const std::string pem, read_text(both));
  const std::size_t border = pem.find("-----BEGIN PRIVATE KEY");
  if (border == std::string::npos) return fail(str(both.string(), " is damaged"), "remove the key folder");
  if (!std::filesystem::exists(layout.certificate(), code)) {
    REKINDLE_CHECK(replace_file(layout.certificate(), std::string_view(pem).substr(0, border), 0600));
  }
  if (!std::filesystem::exists(layout.private_key(), code)) {
    REKINDLE_CHECK(replace_file(layout.private_key(), std::string_view(pem).substr(border), 0600));
  }
  return {};
}

Status remember_keys(const run::Layout& layout) {
  const std::unique_ptr<SSL_CTX, Deleter<SSL_CTX_free>> context(SSL_CTX_new(TLS_method()));
  const std::string certificate = layout.certificate(), key = layout.private_key();
  if (context && SSL_CTX_use_certificate_chain_file(context.get(), certificate.c_str()) == 1 &&
      SSL_CTX_use_PrivateKey_file(context.get(), key.c_str(), SSL_FILETYPE_PEM) == 1)
    return {};
  return fail(str("cannot read the run's key pair in ", layout.keys().string()));
}

}  // namespace rekindle::actors
