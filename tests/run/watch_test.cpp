#include "run/watch.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "../temporary_directory.hpp"
#include "base/clock.hpp"
#include "base/process.hpp"
#include "base/text.hpp"

namespace rekindle::run {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class WatchTest : public ::testing::Test {
 protected:
  WatchTest() { fs::create_directories(layout_.terms().path()); }
  // `pid` 0: a process that never existed.
  void write_claim(const std::string& host, std::int64_t pid, std::int64_t supervisor_pid) {
    const auto ticks = [](std::int64_t of) { return of == 0 ? 1 : stat_field(of, 22); };
    std::ofstream((layout_.terms() / "0001").path())
        << nlohmann::json{{"host", host},
                          {"boot_id", boot_id()},
                          {"pid_namespace", pid_namespace()},
                          {"pid", pid},
                          {"start_ticks", ticks(pid)},
                          {"since", utc_now()},
                          {"supervisor_pid", supervisor_pid == 0 ? 1 << 22 : supervisor_pid},
                          {"supervisor_start_ticks", ticks(supervisor_pid)}};
  }
  void write_status(int number) {
    std::ofstream(layout_.status().path()) << std::string(static_cast<std::size_t>(number), 'x');
  }
  void write_end(const std::string& text) { std::ofstream((layout_.terms() / "0001.ended").path()) << text; }
  // One look per second, beginning after the last look.
  Sign look_for(seconds how_long) {
    Sign sign = Sign::kAlive;
    for (const auto until = now_ + how_long; now_ < until;) sign = watch_.look(now_ += seconds(1));
    return sign;
  }

  TemporaryDirectory directory_;
  Layout layout_{directory_.path()};
  Watch watch_{layout_, seconds(60)};
  milliseconds now_{1000};
};

TEST_F(WatchTest, NoTerm_IsEnded) { EXPECT_EQ(look_for(seconds(1)), Sign::kEnded); }

TEST_F(WatchTest, EndedInOrder_IsEndedAndOrphanedIsNot) {
  write_claim(host_name(), 0, 0);
  write_end("2031-02-03T04:05:06Z\n");
  EXPECT_EQ(look_for(seconds(1)), Sign::kEnded);
  write_end("2031-02-03T04:05:06Z orphaned\n");
  EXPECT_EQ(look_for(seconds(1)), Sign::kOrphaned);
}

TEST_F(WatchTest, CoordinatorDeadAndItsSupervisorAlive_IsAliveForEver) {
  write_claim(host_name(), 0, ::getpid());
  EXPECT_EQ(look_for(seconds(600)), Sign::kAlive);
}

TEST_F(WatchTest, CoordinatorAndSupervisorDeadOnThisHost_IsOrphanedAtOnce) {
  write_claim(host_name(), 0, 0);
  EXPECT_EQ(look_for(seconds(1)), Sign::kOrphaned);
}

TEST_F(WatchTest, HolderOnAnotherHost_SilentWhenItHasWrittenNothingForTheLimit) {
  write_claim("elsewhere", 0, 0);
  write_status(1);
  EXPECT_EQ(look_for(seconds(59)), Sign::kAlive);
  write_status(2);
  EXPECT_EQ(look_for(seconds(59)), Sign::kAlive);
  EXPECT_EQ(look_for(seconds(3)), Sign::kSilent);
  write_status(3);
  EXPECT_EQ(look_for(seconds(1)), Sign::kAlive);
}

TEST_F(WatchTest, CoordinatorThatHangsOnThisHostAndItsSupervisorIsDead_IsSilentAfterTheLimit) {
  write_claim(host_name(), ::getpid(), 0);
  write_status(1);
  EXPECT_EQ(look_for(seconds(59)), Sign::kAlive);
  write_status(2);
  EXPECT_EQ(look_for(seconds(59)), Sign::kAlive) << "a coordinator that writes is alive";
  EXPECT_EQ(look_for(seconds(3)), Sign::kSilent);
}

// For example a person has pressed Ctrl-Z, or debugs the run.
TEST_F(WatchTest, SuspendedCoordinatorOfALivingSupervisor_IsSilentAfterThreeTimesTheLimit) {
  const auto child = spawn({"/bin/sleep", "1000"}, {}, {});
  ASSERT_TRUE(child);
  write_claim(host_name(), child->pid, ::getpid());
  write_status(1);
  EXPECT_EQ(look_for(seconds(600)), Sign::kAlive);
  kill_child(*child, SIGSTOP);
  while (!is_suspended(child->pid)) std::this_thread::yield();
  EXPECT_EQ(look_for(seconds(179)), Sign::kAlive);
  EXPECT_EQ(look_for(seconds(3)), Sign::kSilent);
  kill_child(*child, SIGCONT);
  while (is_suspended(child->pid)) std::this_thread::yield();
  EXPECT_EQ(look_for(seconds(1)), Sign::kAlive);
  kill_child(*child, SIGKILL);
  wait_for(*child);
}

// The watcher was suspended for an hour. The others were suspended, too, or have written meanwhile.
TEST_F(WatchTest, WatcherItselfStoodStill_CountsSilenceAnew) {
  write_claim("elsewhere", 0, 0);
  write_status(1);
  EXPECT_EQ(look_for(seconds(30)), Sign::kAlive);
  now_ += std::chrono::hours(1);
  EXPECT_EQ(look_for(seconds(59)), Sign::kAlive);
  EXPECT_EQ(look_for(seconds(3)), Sign::kSilent);
}

}  // namespace
}  // namespace rekindle::run
