// The run's key pair: what a full disk or a careless hand leaves of it.
#include "actors/tls_keys.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/files.hpp"
#include "base/text.hpp"

namespace rekindle::actors {
namespace {

namespace fs = std::filesystem;

class TlsKeys : public ::testing::Test {
 protected:
  TlsKeys() {
    fs::create_directories(path_);
    EXPECT_TRUE(ensure_keys(layout_));
  }
  ~TlsKeys() override { fs::remove_all(path_); }
  std::vector<fs::path> files() const { return {both_, layout_.certificate(), layout_.private_key()}; }

  fs::path path_ = fs::temp_directory_path() / str("rekindle-keys-", ::getpid());
  run::Layout layout_{path_};
  fs::path both_ = layout_.keys() / "run.pem";
};

TEST_F(TlsKeys, OneEmptyOrTornFile_IsMadeAgainFromTheOthers) {
  for (const fs::path& file : files()) {
    const std::string whole = read_text(file).value();
    for (const std::size_t bytes : {std::size_t{0}, whole.size() / 2}) {
      fs::resize_file(file, bytes);
      ASSERT_TRUE(ensure_keys(layout_)) << file << " with " << bytes << " bytes";
      EXPECT_EQ(read_text(file).value(), whole);
    }
  }
}

TEST_F(TlsKeys, AKeyOfAnotherRun_IsReplaced) {
  const std::string key = read_text(layout_.private_key()).value();
  const run::Layout other(path_ / "other");
  ASSERT_TRUE(ensure_keys(other));
  fs::copy_file(other.private_key(), layout_.private_key(), fs::copy_options::overwrite_existing);
  ASSERT_TRUE(ensure_keys(layout_));
  EXPECT_EQ(read_text(layout_.private_key()).value(), key);
}

TEST_F(TlsKeys, NothingIsLeftOfThem_IsTheUsersToMend) {
  for (const fs::path& file : files()) fs::resize_file(file, 0);
  const Status kept = ensure_keys(layout_);
  ASSERT_FALSE(kept);
  EXPECT_EQ(kept.error().code, ExitCode::kConfig);
  EXPECT_NE(kept.error().line().find("run.pem is damaged"), std::string::npos);
}

}  // namespace
}  // namespace rekindle::actors
