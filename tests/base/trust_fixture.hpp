// A directory that another user may have changed.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "../temporary_directory.hpp"
#include "base/files.hpp"
#include "base/text.hpp"

namespace rekindle {

namespace fs = std::filesystem;

inline constexpr uid_t kSomebodyElse = 12345;

class TrustTest : public ::testing::Test {
 protected:
  TrustTest() {
    fs::create_directories(path_ / "own" / "folder");
    for (const fs::path& directory : {path_, path_ / "own", path_ / "own/folder"})
      ::chmod(directory.c_str(), 0700);
    write("own/folder/file", "ours");
    write("victim", "precious");
  }

  void write(const std::string& name, const std::string& text, mode_t mode = 0600) const {
    std::ofstream(path_ / name) << text;
    ::chmod((path_ / name).c_str(), mode);
  }
  std::string text_of(const std::string& name) const { return read_text(path_ / name).value_or("(none)"); }
  FilePath at(const fs::path& name, Trust trust = Trust::kOwn) const {
    return FilePath::below(path_ / "own", trust, name);
  }
  // Expects this error from each function that uses a file.
  void expect_refused(const FilePath& file, const std::string& words,
                      ExitCode code = ExitCode::kConfig) const {
    const auto read = read_text(file);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, code) << read.error().line();
    EXPECT_NE(read.error().line().find(words), std::string::npos) << read.error().line();
    EXPECT_FALSE(open_file(file, O_WRONLY | O_CREAT | O_TRUNC));
    EXPECT_FALSE(open_file(file, O_RDWR | O_CREAT | O_APPEND));
  }

  TemporaryDirectory directory_;
  fs::path path_ = directory_.path();
};

}  // namespace rekindle
