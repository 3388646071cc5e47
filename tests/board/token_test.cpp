#include "board/token.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "../temporary_directory.hpp"
#include "base/process.hpp"

namespace rekindle::board {
namespace {

using ::testing::HasSubstr;

// Where the secret of a board is, and the error if it cannot be there, with one XDG_STATE_HOME.
class BoardToken : public ::testing::Test {
 protected:
  ~BoardToken() override { ::setenv("XDG_STATE_HOME", before_.c_str(), 1); }

  static void expect_another_folder_is_asked_for(const std::filesystem::path& state) {
    ::setenv("XDG_STATE_HOME", state.c_str(), 1);
    const auto file = board_token_file();
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().code, ExitCode::kConfig);
    EXPECT_THAT(file.error().hint, HasSubstr("XDG_STATE_HOME")) << file.error().line();
  }

  const std::string before_ = environment_variable("XDG_STATE_HOME");
  TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_.path();
};

TEST_F(BoardToken, IsKeptInTheFolderOfTheUsersState) {
  ::setenv("XDG_STATE_HOME", path_.c_str(), 1);
  const auto file = board_token_file();
  ASSERT_TRUE(file) << file.error().line();
  EXPECT_EQ(file->path(), path_ / "rekindle/board-token");
  const auto made = take_token(*file), again = take_token(*board_token_file());
  ASSERT_TRUE(made && again);
  EXPECT_EQ(*made, *again);
}

// As in a container that has no home, or a read-only root.
TEST_F(BoardToken, InAFolderThatCannotBeWritten_TheErrorNamesTheVariable) {
  std::ofstream(path_ / "file") << "no folder";
  expect_another_folder_is_asked_for(path_ / "file");
  if (::geteuid() == 0) return;  // modes do not restrict root
  std::filesystem::create_directory(path_ / "rekindle");
  std::filesystem::permissions(path_ / "rekindle", std::filesystem::perms(0500));
  expect_another_folder_is_asked_for(path_);
}

}  // namespace
}  // namespace rekindle::board
