// make_data("text", ...): its file, its size, and what a model can learn from it.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>

#include "support.hpp"

namespace rekindle::data {
namespace {

// The share of the test split's bytes that are, in the training split, the most frequent after the same
// `order` bytes.
double predicted(const std::string& text, std::size_t order) {
  const std::size_t train = text.size() - text.size() / 10;
  std::map<std::string, std::map<char, int>> seen;
  for (std::size_t i = order; i < train; ++i) ++seen[text.substr(i - order, order)][text[i]];
  int right = 0;
  for (std::size_t i = train; i < text.size(); ++i) {
    const auto& next = seen[text.substr(i - order, order)];
    const auto best =
        std::ranges::max_element(next, {}, [](const auto& byte_and_count) { return byte_and_count.second; });
    right += best != next.end() && best->first == text[i] ? 1 : 0;
  }
  return right / static_cast<double>(text.size() - train);
}

TEST(MakeText, TheNextByteCanBeLearntFromTheBytesBefore) {
  const Scratch scratch;
  ASSERT_TRUE(make_data("text", scratch.path / "a", 400, 1));
  const std::string text = get(scratch.path / "a");
  const double none = predicted(text, 0), two = predicted(text, 2), four = predicted(text, 4);
  RecordProperty("accuracies", std::to_string(none) + " " + std::to_string(two) + " " + std::to_string(four));
  EXPECT_LT(none, 0.25);  // mostly spaces
  EXPECT_GT(two, none + 0.1);
  EXPECT_GT(four, two + 0.1);
  EXPECT_LT(four, 0.9);
}

TEST(MakeText, HasTheSamplesThatWereAskedFor) {
  for (const std::size_t samples : {1, 8, 9, 10, 11, 100, 103}) {
    const Scratch scratch;
    const auto made = make_data("text", scratch.path / "a", samples, 1);
    ASSERT_TRUE(made) << made.error().line();
    const auto dataset = open_dataset("text", scratch.path / "a", {.context = 256}).value();
    EXPECT_EQ(dataset->info().train_count, std::max<std::size_t>(samples, 9));
    EXPECT_EQ(made->train_count, dataset->info().train_count);
    EXPECT_EQ(made->test_count, dataset->info().test_count);
    EXPECT_EQ(made->bytes, fs::file_size(scratch.path / "a"));
  }
}

TEST(MakeText, FewerSamplesAreTheBeginningOfMore) {
  const Scratch scratch;
  ASSERT_TRUE(make_data("text", scratch.path / "few", 20, 3));
  ASSERT_TRUE(make_data("text", scratch.path / "many", 30, 3));
  EXPECT_TRUE(get(scratch.path / "many").starts_with(get(scratch.path / "few")));
}

TEST(MakeText, WritesAFileOrTheOnlyFileOfAFolder) {
  const Scratch scratch;
  fs::create_directory(scratch.path / "folder");
  for (const char* place : {"new/file", "folder", "other/"})
    ASSERT_TRUE(make_data("text", scratch.path / place, 20, 1));
  const std::string text = get(scratch.path / "new" / "file");
  EXPECT_EQ(get(scratch.path / "folder" / "text.txt"), text);
  EXPECT_EQ(get(scratch.path / "other" / "text.txt"), text);
  EXPECT_EQ(make_data("text", scratch.path / "new" / "file", 20, 1)->files_written, 0U);
}

TEST(MakeText, AFolderWithOtherFilesIsRefused) {
  const Scratch scratch;
  fs::create_directory(scratch.path / "inner");  // a reader skips it
  ASSERT_TRUE(make_data("text", scratch.path, 20, 1));
  put(scratch.path / "notes", "a reader would join them");
  const auto made = make_data("text", scratch.path, 20, 1);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ExitCode::kConfig);
  EXPECT_NE(made.error().line().find("notes exists and is not the file that this command makes"),
            std::string::npos)
      << made.error().line();
}

TEST(MakeText, APipeIsNotRead) {
  const Scratch scratch;
  ASSERT_EQ(::mkfifo((scratch.path / "pipe").c_str(), 0600), 0);
  EXPECT_FALSE(make_data("text", scratch.path / "pipe", 20, 1));
}

}  // namespace
}  // namespace rekindle::data
