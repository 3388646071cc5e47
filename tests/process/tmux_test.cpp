// What a run and `status --watch` show in tmux, where people watch their runs: its windows change their size.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "../needs.hpp"
#include "base/command.hpp"
#include "base/text.hpp"
#include "harness.hpp"

namespace rekindle::process_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class InTmux : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::access("/usr/bin/tmux", X_OK) != 0)
      REKINDLE_SKIP(Needs::kSetup, "needs tmux (tools/packages-test.txt)");
  }
  void TearDown() override { std::ignore = tmux({"kill-server"}); }

  // A server of its own, without the person's settings.
  std::string tmux(const Arguments& words) const {
    const auto outcome =
        run_command(Arguments{"/usr/bin/tmux", "-f", "/dev/null", "-S", scratch_ / "socket"} + words,
                    std::chrono::seconds(30));
    return outcome ? outcome->out : outcome.error().line();
  }
  // A window of this width, in which the command runs.
  void open(int width, const Arguments& command) const {
    tmux(Arguments{"new-session", "-d", "-x", str(width), "-y", "20"} + command);
  }
  void resize(int width) const { tmux({"resize-window", "-x", str(width), "-y", "20"}); }
  // The lines of the window that are not empty.
  std::vector<std::string> screen() const {
    std::istringstream text(tmux({"capture-pane", "-p"}));
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);)
      if (!line.empty()) lines.push_back(line);
    return lines;
  }
  static std::size_t progress_lines(const std::vector<std::string>& lines) {
    return static_cast<std::size_t>(
        std::ranges::count_if(lines, [](const std::string& line) { return line.starts_with("step "); }));
  }
  // The screen when the newest line shows `step` or a later one.
  std::vector<std::string> screen_at(std::uint64_t step) const {
    std::vector<std::string> lines;
    EXPECT_TRUE(eventually([&] {
      lines = screen();
      return !lines.empty() && lines.back().starts_with("step ") &&
             std::strtoull(lines.back().c_str() + 5, nullptr, 10) >= step;
    })) << ::testing::PrintToString(screen());
    return lines;
  }
  std::uint64_t newest() const { return reached_step(dir()); }
  fs::path dir() const { return scratch_ / "run"; }

  const Scratch scratch_;
};

TEST_F(InTmux, TheProgressLine_StaysOneLineThatFits) {
  open(60, Arguments{rekindle()} + mnist_run(dir(), 1, 1000000));
  auto lines = screen_at(3);
  EXPECT_EQ(progress_lines(lines), 1U) << ::testing::PrintToString(lines);
  EXPECT_THAT(lines.back(), HasSubstr("  loss "));
  lines = screen_at(newest() + 5);
  EXPECT_EQ(progress_lines(lines), 1U) << "drawn again in its place: " << ::testing::PrintToString(lines);
  resize(120);
  lines = screen_at(newest() + 5);
  EXPECT_EQ(progress_lines(lines), 1U) << ::testing::PrintToString(lines);
  EXPECT_THAT(lines.back(), AllOf(HasSubstr(" images/s  "), HasSubstr(" left")));
  // The window breaks the line that is there into several, of which the program can clear only the last.
  resize(30);
  lines = screen_at(newest() + 5);
  const std::size_t left = progress_lines(lines);
  EXPECT_LE(left, 2U) << ::testing::PrintToString(lines);
  EXPECT_LT(lines.back().size(), 30U);
  lines = screen_at(newest() + 10);
  EXPECT_EQ(progress_lines(lines), left)
      << "no line is left behind by a step: " << ::testing::PrintToString(lines);
  EXPECT_EQ(run({"stop", dir()}).exit_code, 0);
  EXPECT_TRUE(eventually([&] { return processes_with(dir().string()).empty(); }));
}

TEST_F(InTmux, StatusWatch_FollowsTheWidthOfItsWindow) {
  ASSERT_EQ(run(mnist_run(dir(), 1, 3)).exit_code, 0);
  open(40, {rekindle(), "status", dir(), "--watch"});
  const auto longest = [&] {
    std::size_t most = 0;
    for (const std::string& line : screen()) most = std::max(most, line.size());
    return most;
  };
  ASSERT_TRUE(eventually([&] { return longest() > 0; }));
  EXPECT_THAT(screen(), Contains(StartsWith("step     3 of 3")));
  EXPECT_LE(longest(), 40U) << ::testing::PrintToString(screen());
  resize(100);
  EXPECT_TRUE(eventually([&] { return longest() > 40; })) << ::testing::PrintToString(screen());
  EXPECT_THAT(screen(), Contains(StartsWith("step     3 of 3")));
  resize(40);
  // A window that was made narrower shows the old lines, broken, until they are drawn again.
  EXPECT_TRUE(eventually([&] {
    const auto lines = screen();
    return std::ranges::count_if(lines, [](const std::string& line) { return line.starts_with("state "); }) ==
               1 &&
           std::ranges::count_if(lines, [](const std::string& line) { return line.starts_with("step "); }) ==
               1;
  })) << ::testing::PrintToString(screen());
  EXPECT_LE(longest(), 40U);
}

}  // namespace
}  // namespace rekindle::process_test
