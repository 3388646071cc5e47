#include "view/run_logs.hpp"

#include <gmock/gmock.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "../run/run_directory_fixture.hpp"

namespace rekindle::view {
namespace {

namespace fs = std::filesystem;

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RunLogsTest : public run::RunDirectory {
 protected:
  RunLogsTest() { fs::create_directories(layout_.logs().path()); }
  void write(const std::string& process, const std::string& text) {
    std::ofstream(layout_.log(process).path(), std::ios::app) << text;
  }
  std::vector<std::string> read() {
    std::vector<std::string> texts;
    lines_ = logs_.read_new().value();
    for (const LogLine& line : lines_) texts.push_back(line.text);
    return texts;
  }

  RunLogs logs_{layout_};
  std::vector<LogLine> lines_;
};

TEST_F(RunLogsTest, LinesOfAllProcessesComeByTime) {
  write("worker-w0",
        "2026-01-02T03:04:05.200Z info    worker: b\n2026-01-02T03:04:05.400Z error   worker: d\n");
  write("coordinator", "2026-01-02T03:04:05.100Z info    coordinator: a\n");
  write("trainer-w0", "2026-01-02T03:04:05.300Z warning trainer: c\n");
  EXPECT_THAT(read(), ElementsAre("2026-01-02T03:04:05.100Z info    coordinator: a",
                                  "2026-01-02T03:04:05.200Z info    worker: b",
                                  "2026-01-02T03:04:05.300Z warning trainer: c",
                                  "2026-01-02T03:04:05.400Z error   worker: d"));
  EXPECT_EQ(lines_[0].level, "info");
  EXPECT_EQ(lines_[2].level, "warning");
  EXPECT_EQ(lines_[3].level, "error");
}

TEST_F(RunLogsTest, ALineWithoutATimeFollowsTheOneBefore) {
  write("a", "2026-01-02T03:04:05.100Z info    a: one\nterminate called\n");
  write("b", "2026-01-02T03:04:05.050Z info    b: first\n2026-01-02T03:04:05.200Z info    b: last\n");
  EXPECT_THAT(read(), ElementsAre("2026-01-02T03:04:05.050Z info    b: first",
                                  "2026-01-02T03:04:05.100Z info    a: one", "terminate called",
                                  "2026-01-02T03:04:05.200Z info    b: last"));
}

TEST_F(RunLogsTest, OldLinesInLocalTime_ComeByUtc) {
  ::setenv("TZ", "EST5", 1);  // each test has a process of its own
  ::tzset();
  write("a", "2026-01-02 03:04:05.100 info    a: old\n2026-01-02T08:04:05.300Z info    a: new\n");
  write("b", "2026-01-02T08:04:05.200Z warning b: other\n");
  EXPECT_THAT(read(), ElementsAre("2026-01-02 03:04:05.100 info    a: old",
                                  "2026-01-02T08:04:05.200Z warning b: other",
                                  "2026-01-02T08:04:05.300Z info    a: new"));
  EXPECT_EQ(lines_[0].time, "2026-01-02T08:04:05.100Z");
  EXPECT_EQ(lines_[0].level, "info");
}

TEST_F(RunLogsTest, OnlyCompleteAndNewLinesAreGiven) {
  write("a", "2026-01-02T03:04:05.100Z info    a: one\n2026-01-02T03:04:05.2");
  EXPECT_THAT(read(), ElementsAre("2026-01-02T03:04:05.100Z info    a: one"));
  EXPECT_THAT(read(), IsEmpty());
  write("a", "00Z info    a: two\n");
  write("new", "2026-01-02T03:04:05.150Z info    new: begins\n");
  EXPECT_THAT(read(), ElementsAre("2026-01-02T03:04:05.150Z info    new: begins",
                                  "2026-01-02T03:04:05.200Z info    a: two"));
  fs::remove(layout_.log("a").path());
  write("a", "2026-01-02T04:00:00.000Z info    a: again\n");
  EXPECT_THAT(read(), ElementsAre("2026-01-02T04:00:00.000Z info    a: again"));
}

TEST_F(RunLogsTest, HostileContent_IsSafeToShowAndEndsNothing) {
  write("a", "2026-01-02T03:04:05.100Z info    a: \033[2J\xff <script>\n");
  write("long", std::string(std::size_t{9} << 20, 'x'));
  write("other.txt", "");
  EXPECT_THAT(read(), ElementsAre("2026-01-02T03:04:05.100Z info    a: \\x1b[2J\\xff <script>"));
  write("long", "\n2026-01-02T03:04:05.300Z info    long: goes on\n");
  EXPECT_EQ(read().back(), "2026-01-02T03:04:05.300Z info    long: goes on");
}

TEST_F(RunLogsTest, WithoutLogs_Nothing) {
  fs::remove_all(layout_.logs().path());
  EXPECT_THAT(read(), IsEmpty());
}

}  // namespace
}  // namespace rekindle::view
