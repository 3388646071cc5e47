// The run's key pair: a new one for each attempt, and what a full disk leaves of it.
#include "actors/tls_keys.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "actors/key_pair.hpp"
#include "base/files.hpp"
#include "base/text.hpp"

namespace rekindle::actors {
namespace {

namespace fs = std::filesystem;

class TlsKeys : public ::testing::Test {
 protected:
  TlsKeys() {
    fs::create_directories(path_);
    EXPECT_TRUE(renew_keys(layout_));
  }
  ~TlsKeys() override { fs::remove_all(path_); }
  std::string pair() const { return read_text(layout_.key_pair()).value_or(""); }

  fs::path path_ = fs::temp_directory_path() / str("rekindle-keys-", ::getpid());
  run::Layout layout_{path_};
};

TEST_F(TlsKeys, APair_PrivateAndUsable) {
  EXPECT_TRUE(KeyPair::is_pair(pair()));
  EXPECT_EQ(look_at(layout_.key_pair()).value()->st_mode & 0777, 0600U);
  EXPECT_EQ(look_at(layout_.keys()).value()->st_mode & 0777, 0700U);
  EXPECT_TRUE(load_keys(layout_));
}

// A run directory that was handed over holds a key that its former owner knows.
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

TEST_F(TlsKeys, TheKeyOfAnotherCertificate_IsNoPair) {
  const std::string before = pair();
  ASSERT_TRUE(renew_keys(layout_));
  const std::string after = pair();
  const auto key_at = [](const std::string& pem) { return pem.find("-----BEGIN PRIVATE KEY"); };
  EXPECT_FALSE(KeyPair::is_pair(before.substr(0, key_at(before)) + after.substr(key_at(after))));
}

}  // namespace
}  // namespace rekindle::actors
