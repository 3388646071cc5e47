// The run's key pair: a new pair for each attempt, and the files that a full disk leaves.
#include "actors/tls_keys.hpp"

#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <filesystem>
#include <memory>

#include "../temporary_directory.hpp"
#include "actors/key_pair.hpp"
#include "base/files.hpp"
#include "base/text.hpp"

namespace rekindle::actors {
namespace {

namespace fs = std::filesystem;

constexpr long kDay = 24L * 3600;

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

// The same pair, valid between two times from now, in seconds.
std::string with_times(const std::string& pem, long from, long to) {
  const Bio in(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))), out(BIO_new(BIO_s_mem()));
  const Certificate certificate(PEM_read_bio_X509(in.get(), nullptr, nullptr, nullptr));
  const PrivateKey key(PEM_read_bio_PrivateKey(in.get(), nullptr, nullptr, nullptr));
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), from);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), to);
  X509_sign(certificate.get(), key.get(), EVP_sha256());
  PEM_write_bio_X509(out.get(), certificate.get());
  PEM_write_bio_PrivateKey(out.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  return text_of(out.get());
}

using Context = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;
using Session = std::unique_ptr<SSL, decltype(&SSL_free)>;

// As CAF makes one (actors/openssl_calls.cpp).
Context context_with(const std::string& pem) {
  Context context(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  EXPECT_TRUE(KeyPair::current().take(pem));
  EXPECT_EQ(KeyPair::current().use_certificate(context.get()), 1);
  EXPECT_EQ(KeyPair::current().use_private_key(context.get()), 1);
  EXPECT_EQ(KeyPair::current().trust_certificate(context.get()), 1);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return context;
}

// Whether a client with the one pair and a server with the other one authenticate each other.
bool connect(const std::string& client_pem, const std::string& server_pem) {
  const Context of_client = context_with(client_pem), of_server = context_with(server_pem);
  const Session client(SSL_new(of_client.get()), SSL_free), server(SSL_new(of_server.get()), SSL_free);
  BIO *at_client = nullptr, *at_server = nullptr;
  EXPECT_EQ(BIO_new_bio_pair(&at_client, 0, &at_server, 0), 1);
  SSL_set_bio(client.get(), at_client, at_client);
  SSL_set_bio(server.get(), at_server, at_server);
  SSL_set_connect_state(client.get());
  SSL_set_accept_state(server.get());
  bool client_done = false, server_done = false;
  constexpr int kMostTurns = 20;
  for (int turn = 0; turn < kMostTurns && !(client_done && server_done); ++turn) {
    client_done = SSL_do_handshake(client.get()) == 1;
    server_done = SSL_do_handshake(server.get()) == 1;
  }
  return client_done && server_done;
}

class TlsKeys : public ::testing::Test {
 protected:
  TlsKeys() { EXPECT_TRUE(renew_keys(layout_)); }
  std::string pair() const { return read_text(layout_.key_pair()).value_or(""); }

  TemporaryDirectory directory_;
  fs::path path_ = directory_.path();
  run::Layout layout_{path_};
};

TEST_F(TlsKeys, APair_PrivateAndUsable) {
  EXPECT_TRUE(KeyPair::is_pair(pair()));
  EXPECT_EQ(look_at(layout_.key_pair()).value()->st_mode & 0777, 0600U);
  EXPECT_EQ(look_at(layout_.keys()).value()->st_mode & 0777, 0700U);
  EXPECT_TRUE(load_keys(layout_));
}

// The former owner of a run directory may have a copy of the directory's key.
TEST_F(TlsKeys, ANewAttempt_HasANewPair) {
  const std::string before = pair();
  ASSERT_TRUE(renew_keys(layout_));
  EXPECT_NE(pair(), before);
  EXPECT_TRUE(KeyPair::is_pair(pair()));
}

TEST_F(TlsKeys, ACoordinatorThatGoesOnWithAnAttempt_KeepsThePairUnlessItIsBroken) {
  const std::string before = pair();
  ASSERT_TRUE(ensure_keys(layout_));
  EXPECT_EQ(pair(), before);
  for (const std::size_t bytes : {std::size_t{0}, before.size() / 2}) {
    fs::resize_file(layout_.key_pair().path(), bytes);
    EXPECT_FALSE(load_keys(layout_));
    ASSERT_TRUE(ensure_keys(layout_));
    EXPECT_TRUE(KeyPair::is_pair(pair()));
  }
  fs::remove(layout_.key_pair().path());
  ASSERT_TRUE(ensure_keys(layout_));
  EXPECT_TRUE(KeyPair::is_pair(pair()));
}

// A user can make a large file of holes at no cost, and reading it would fill the memory.
TEST_F(TlsKeys, AFileLargerThanAnyPair_IsNotReadAndIsReplacedByACoordinatorThatGoesOn) {
  fs::resize_file(layout_.key_pair().path(), std::uintmax_t{1} << 40);
  const Status loaded = load_keys(layout_);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().line(),
            layout_.key_pair().string() +
                " has 1.10 TB, more than 16.4 kB: the next attempt of the run makes a new key pair");
  ASSERT_TRUE(ensure_keys(layout_));
  EXPECT_TRUE(KeyPair::is_pair(pair()));
  EXPECT_TRUE(load_keys(layout_));
}

TEST_F(TlsKeys, ANewPair_IsItsOwnersAlone) {
  ASSERT_TRUE(renew_keys(layout_));
  fs::permissions(layout_.key_pair().path(), fs::perms(0644));
  ASSERT_TRUE(renew_keys(layout_));
  EXPECT_EQ(fs::status(layout_.key_pair().path()).permissions(), fs::perms(0600));
}

TEST_F(TlsKeys, TheKeyOfAnotherCertificate_IsNoPair) {
  const std::string before = pair();
  ASSERT_TRUE(renew_keys(layout_));
  const std::string after = pair();
  const auto key_at = [](const std::string& pem) { return pem.find("-----BEGIN PRIVATE KEY"); };
  EXPECT_FALSE(KeyPair::is_pair(before.substr(0, key_at(before)) + after.substr(key_at(after))));
}

// Clocks of machines differ, and a clock may be set back while the run goes on.
TEST_F(TlsKeys, APairThatIsNotValidYetOrAnyMore_ConnectsAndAnotherPairDoesNot) {
  const std::string pem = pair();
  EXPECT_TRUE(connect(pem, pem));
  for (const long days : {-800L, 800L}) {
    const std::string at_another_time = with_times(pem, (days - 1) * kDay, (days + 1) * kDay);
    EXPECT_TRUE(connect(at_another_time, at_another_time)) << days;
  }
  ASSERT_TRUE(renew_keys(layout_));
  EXPECT_FALSE(connect(pem, pair()));
  EXPECT_FALSE(connect(pair(), pem));
}

}  // namespace
}  // namespace rekindle::actors
