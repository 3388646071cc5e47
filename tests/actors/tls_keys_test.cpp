// The run's key pair: a new pair for each attempt, and the files that a full disk leaves.
#include "actors/tls_keys.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "../temporary_directory.hpp"
#include "actors/key_pair.hpp"
#include "base/files.hpp"
#include "base/text.hpp"

namespace rekindle::actors {
namespace {

namespace fs = std::filesystem;

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

}  // namespace
}  // namespace rekindle::actors
