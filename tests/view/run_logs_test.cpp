#include "view/run_logs.hpp"

#include <gmock/gmock.h>

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
        "2026-01-02 03:04:05.200 info    worker: b\n2026-01-02 03:04:05.400 error   worker: d\n");
  write("coordinator", "2026-01-02 03:04:05.100 info    coordinator: a\n");
  write("trainer-w0", "2026-01-02 03:04:05.300 warning trainer: c\n");
  EXPECT_THAT(read(), ElementsAre("2026-01-02 03:04:05.100 info    coordinator: a",
                                  "2026-01-02 03:04:05.200 info    worker: b",
                                  "2026-01-02 03:04:05.300 warning trainer: c",
                                  "2026-01-02 03:04:05.400 error   worker: d"));
  EXPECT_EQ(lines_[0].level, "info");
  EXPECT_EQ(lines_[2].level, "warning");
  EXPECT_EQ(lines_[3].level, "error");
}

TEST_F(RunLogsTest, ALineWithoutATimeFollowsTheOneBefore) {
  write("a", "2026-01-02 03:04:05.100 info    a: one\nterminate called\n");
  write("b", "2026-01-02 03:04:05.050 info    b: first\n2026-01-02 03:04:05.200 info    b: last\n");
  EXPECT_THAT(read(), ElementsAre("2026-01-02 03:04:05.050 info    b: first",
                                  "2026-01-02 03:04:05.100 info    a: one", "terminate called",
                                  "2026-01-02 03:04:05.200 info    b: last"));
}

TEST_F(RunLogsTest, OnlyCompleteAndNewLinesAreGiven) {
  write("a", "2026-01-02 03:04:05.100 info    a: one\n2026-01-02 03:04:05.2");
  EXPECT_THAT(read(), ElementsAre("2026-01-02 03:04:05.100 info    a: one"));
  EXPECT_THAT(read(), IsEmpty());
  write("a", "00 info    a: two\n");
  write("new", "2026-01-02 03:04:05.150 info    new: begins\n");
  EXPECT_THAT(read(), ElementsAre("2026-01-02 03:04:05.150 info    new: begins",
                                  "2026-01-02 03:04:05.200 info    a: two"));
  fs::remove(layout_.log("a").path());
  write("a", "2026-01-02 04:00:00.000 info    a: again\n");
  EXPECT_THAT(read(), ElementsAre("2026-01-02 04:00:00.000 info    a: again"));
}

TEST_F(RunLogsTest, HostileContent_IsSafeToShowAndEndsNothing) {
  write("a", "2026-01-02 03:04:05.100 info    a: \033[2J\xff <script>\n");
  write("long", std::string(std::size_t{9} << 20, 'x'));
  write("other.txt", "");
  EXPECT_THAT(read(), ElementsAre("2026-01-02 03:04:05.100 info    a: \\x1b[2J\\xff <script>"));
  write("long", "\n2026-01-02 03:04:05.300 info    long: goes on\n");
  EXPECT_EQ(read().back(), "2026-01-02 03:04:05.300 info    long: goes on");
}

TEST_F(RunLogsTest, WithoutLogs_Nothing) {
  fs::remove_all(layout_.logs().path());
  EXPECT_THAT(read(), IsEmpty());
}

}  // namespace
}  // namespace rekindle::view
