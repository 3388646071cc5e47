#include "base/input_file.hpp"
#include "../needs.hpp"
#include "../temporary_directory.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "base/text.hpp"

namespace rekindle {
namespace {

namespace fs = std::filesystem;

class InputFiles : public ::testing::Test {
 protected:
  fs::path file(const std::string& content, std::uint64_t size) const {
    std::ofstream(path_ / "file", std::ios::binary) << content;
    fs::resize_file(path_ / "file", size);
    return path_ / "file";
  }
  const TemporaryDirectory directory_;
  const fs::path path_ = directory_.path();
};

TEST_F(InputFiles, AFileThatIsMostlyAHole_IsRefused) {
  const auto holes = open_input(file("header", std::uint64_t{3} << 30));
  ASSERT_TRUE(holes) << holes.error().line();
  EXPECT_EQ(holes->size, std::uint64_t{3} << 30);
  if (holes->stored == holes->size)
    REKINDLE_SKIP(Needs::kMachine, "this file system does not tell where holes are");
  EXPECT_LE(holes->stored, std::uint64_t{1} << 20);
  const Status checked = check_holes(*holes);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ExitCode::kConfig);
  EXPECT_NE(checked.error().what.find("has 3.22 GB, but only "), std::string::npos) << checked.error().line();
}

TEST_F(InputFiles, AWholeFileAndASmallOne_AreTaken) {
  for (const std::string& content : {std::string(), std::string(100, 'x'), std::string(5000000, 'x')}) {
    const auto whole = open_input(file(content, content.size()));
    ASSERT_TRUE(whole) << whole.error().line();
    EXPECT_TRUE(check_holes(*whole));
  }
  const auto small = open_input(file("x", 1 << 20));  // a file this small is accepted even if it is one hole
  ASSERT_TRUE(small);
  EXPECT_TRUE(check_holes(*small));
}

TEST_F(InputFiles, WhatIsNoRegularFile_IsRefusedAndNotWaitedFor) {
  ASSERT_EQ(::mkfifo((path_ / "pipe").c_str(), 0600), 0);
  for (const fs::path& path : {path_, path_ / "pipe", path_ / "none", fs::path("/dev/zero")}) {
    const auto opened = open_input(path);
    ASSERT_FALSE(opened) << path;
    EXPECT_EQ(opened.error().code, ExitCode::kConfig);
    EXPECT_NE(opened.error().what.find(path.string()), std::string::npos) << opened.error().line();
  }
}

}  // namespace
}  // namespace rekindle
