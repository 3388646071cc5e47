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

#include "actors/key_pair.hpp"
#include "base/files.hpp"
#include "base/text.hpp"

namespace rekindle::actors {
namespace {

constexpr long kDay = 24L * 3600;
constexpr std::size_t kMostPairBytes = 16384;  // a pair has about 800

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
  const PrivateKey key(EVP_EC_gen("P-256"));
  const Certificate certificate = key ? self_signed(key.get()) : Certificate();
  const Bio bio(BIO_new(BIO_s_mem()));
  if (!certificate || PEM_write_bio_X509(bio.get(), certificate.get()) != 1 ||
      PEM_write_bio_PrivateKey(bio.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return fail("OpenSSL could not make the run's key pair");
  }
  return text_of(bio.get());
}

}  // namespace

Status renew_keys(const run::Layout& layout) {
  REKINDLE_CHECK(make_directories(layout.keys()));
  REKINDLE_TRY(const std::string pair, new_pair());
  constexpr unsigned kOwnersOnly = 0600;
  return replace_file(layout.key_pair(), pair, kOwnersOnly);
}

Status ensure_keys(const run::Layout& layout) {
  REKINDLE_TRY(const auto there, look_at(layout.key_pair()));
  if (!there || there->st_size > off_t{kMostPairBytes}) return renew_keys(layout);
  REKINDLE_TRY(const std::string pem, read_text(layout.key_pair(), kMostPairBytes));
  return KeyPair::is_pair(pem) ? Status() : renew_keys(layout);
}

Status load_keys(const run::Layout& layout, KeyPair& into) {
  auto pem = read_text(layout.key_pair(), kMostPairBytes);
  if (!pem && pem.error().hint.empty()) pem.error().hint = "the next attempt of the run makes a new key pair";
  if (!pem) return forward_error(std::move(pem.error()));
  if (into.take(*pem)) return {};
  return fail(str(layout.key_pair().string(), " is not a certificate with its key"));
}

}  // namespace rekindle::actors
