#include "base/line_splitter.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace rekindle {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(LineSplitter, LinesEndWhereverTheTextIsCut) {
  const std::string text = "one\n\ntwo\r\nthree\r\r\nfour";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    LineSplitter splitter;
    std::vector<std::string> lines = splitter.take(text.substr(0, cut));
    for (std::string& line : splitter.take(text.substr(cut))) lines.push_back(std::move(line));
    EXPECT_THAT(lines, ElementsAre("one", "", "two", "three")) << cut;
    EXPECT_EQ(splitter.rest(), "four");
    EXPECT_EQ(splitter.rest(), "");
  }
}

// A progress bar prints all day without an end of the line.
TEST(LineSplitter, WhatIsOverwritten_IsNotKept) {
  LineSplitter splitter;
  for (int i = 0; i < 1000; ++i)
    EXPECT_THAT(splitter.take("\r 10%|##   | step " + std::to_string(i)), IsEmpty());
  EXPECT_THAT(splitter.take("\rdone\n"), ElementsAre("done"));
}

TEST(LineSplitter, ALineWithoutEnd_IsCut) {
  LineSplitter splitter;
  std::size_t lines = 0;
  for (int i = 0; i < 1000; ++i) lines += splitter.take(std::string(1000, '.')).size();
  EXPECT_EQ(lines, std::size_t{1000} * 1000 / LineSplitter::kLongest);
  EXPECT_EQ(splitter.rest().size(), std::size_t{1000} * 1000 % LineSplitter::kLongest);
}

}  // namespace
}  // namespace rekindle
