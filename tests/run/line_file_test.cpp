// Files of lines: with incomplete lines, truncated, and on a disk that is full for a while.
#include "run/line_file.hpp"
#include "../needs.hpp"
#include "../read_lines.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "../small_disk.hpp"
#include "../temporary_directory.hpp"
#include "base/text.hpp"
#include "run/records.hpp"

namespace rekindle::run {
namespace {

namespace filesystem = std::filesystem;

class Lines : public ::testing::Test {
 protected:
  static std::string text_of(const filesystem::path& file) { return read_text(file).value_or("(none)"); }
  void write(const std::string& text) const { std::ofstream(file_) << text; }
  // Every line of the file must be complete.
  static std::vector<int> steps_in(const filesystem::path& file) {
    std::vector<int> steps;
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) {
      const auto json = nlohmann::json::parse(line, nullptr, false);
      EXPECT_TRUE(json.is_object()) << line;
      if (json.is_object()) steps.push_back(json.value("step", -1));
    }
    return steps;
  }

  TemporaryDirectory directory_;
  filesystem::path path_ = directory_.path();
  filesystem::path file_ = path_ / "metrics.jsonl";
};

TEST_F(Lines, TornLastLine_IsRemovedBeforeTheNext) {
  write("{\"step\":1}\n{\"step\":2,\"lo");
  ASSERT_TRUE(LineFile(file_).append({{"step", 3}}));
  EXPECT_EQ(text_of(file_), "{\"step\":1}\n{\"step\":3}\n");
}

TEST_F(Lines, LastLineWithoutItsEnd_IsCompleted) {
  write("{\"step\":1}\n{\"step\":2}");
  ASSERT_TRUE(LineFile(file_).append({{"step", 3}}));
  EXPECT_EQ(steps_in(file_), (std::vector{1, 2, 3}));
}

TEST_F(Lines, OneTornLineOrALongOne_IsMended) {
  write("{\"st");
  ASSERT_TRUE(LineFile(file_).append({{"step", 1}}));
  EXPECT_EQ(steps_in(file_), std::vector{1});
  write("{\"step\":1}\n{\"step\":2," + std::string(200000, 'x'));
  ASSERT_TRUE(LineFile(file_).append({{"step", 3}}));
  EXPECT_EQ(steps_in(file_), (std::vector{1, 3}));
}

TEST_F(Lines, AttemptsThatWereTorn_AreMended) {
  const Layout layout(path_);
  std::ofstream(layout.attempts().path()) << "{\"event\":\"begin\",\"att";
  ASSERT_TRUE(record_attempt(layout, {{"event", "begin"}, {"attempt", 1}}));
  EXPECT_EQ(read_lines(layout.attempts()).size(), 1U);
}

// Each line has some hundred bytes, so that the last page contains only a part of a line.
TEST_F(Lines, FullDisk_NoLineIsTornAndNoneIsLostOnceThereIsRoom) {
  const SmallDisk disk(path_ / "small", 1);
  if (!disk.mounted()) REKINDLE_SKIP(Needs::kMounts, "cannot mount");
  const filesystem::path file = disk.path() / "metrics.jsonl", filler = disk.path() / "filler";
  LineFile lines(file);
  const auto line = [](int step) { return nlohmann::json{{"step", step}, {"text", std::string(250, 'x')}}; };
  int step = 0;
  while (step < 10) ASSERT_TRUE(lines.append(line(++step)));
  {
    std::ofstream out(filler);
    while (out << std::string(4096, 'f') << std::flush) {
    }
  }
  bool failed = false;
  for (int more = 0; more < 40; ++more) failed = !lines.append(line(++step)) || failed;
  ASSERT_TRUE(failed);
  const std::vector<int> stored = steps_in(file);
  EXPECT_LT(stored.size(), static_cast<std::size_t>(step));
  filesystem::remove(filler);
  ASSERT_TRUE(lines.append(line(++step)));
  std::vector<int> all;
  for (int each = 1; each <= step; ++each) all.push_back(each);
  EXPECT_EQ(steps_in(file), all);
  EXPECT_TRUE(lines.pending().empty());
}

TEST_F(Lines, RecordedSteps_TheMissingOnesAreKnown) {
  const Layout layout(path_);
  std::ofstream(layout.metrics().path()) << R"({"loss":1,"step":2})"
                                         << "\n"
                                         << R"({"loss":1,"step":6})"
                                         << "\n"
                                         << R"({"loss":1,"step":4})"
                                         << "\n"
                                         << R"({"loss":1,"step":9,"x)";
  const Recorded all = recorded(layout);
  EXPECT_EQ(all.step, 6U);
  EXPECT_EQ(all.missing.text(), "steps 1, 3, 5");
}

TEST_F(Lines, APipeInTheirPlace_IsNotWaitedFor) {
  const Layout layout(path_);
  ASSERT_EQ(::mkfifo(layout.metrics().string().c_str(), 0600), 0);
  EXPECT_EQ(recorded(layout).step, 0U);
  EXPECT_FALSE(best_evaluated(layout, {1}, {}));
  EXPECT_FALSE(LineFile(layout.metrics()).append({{"step", 1}}));
}

TEST(StepSet, JoinsSplitsAndNames) {
  StepSet steps;
  EXPECT_TRUE(steps.empty());
  steps.insert(5, 4);
  EXPECT_TRUE(steps.empty());
  steps.insert(4, 4);
  EXPECT_EQ(steps.text(), "step 4");
  steps.insert(6, 9);
  steps.insert(5, 5);
  EXPECT_EQ(steps.text(), "steps 4 to 9");
  steps.erase(7);
  EXPECT_EQ(steps.text(), "steps 4 to 6, 8 to 9");
  steps.insert(1, 20);
  steps.erase_after(3);
  EXPECT_EQ(steps.text(), "steps 1 to 3");
  for (std::uint64_t step = 10; step < 30; step += 2) steps.insert(step, step);
  EXPECT_EQ(steps.text(), "steps 1 to 3, 10, 12, 14, 16 and 6 more ranges");
}

}  // namespace
}  // namespace rekindle::run
