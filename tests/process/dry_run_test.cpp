// rekindle local --dry-run: its output, and that no file of it stays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>

#include "../needs.hpp"
#include "../small_disk.hpp"
#include "base/command.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "harness.hpp"

namespace rekindle::process_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> names_below(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& each : fs::recursive_directory_iterator(folder))
    names.push_back(each.path().lexically_relative(folder));
  std::ranges::sort(names);
  return names;
}

class DryRun : public testing::Test {
 protected:
  DryRun() { fs::create_directories(home_); }
  // In a folder of its own, in which nothing may be left.
  Arguments command(int steps = 1000000) const { return mnist_run(home_ / "runs/one", 2, steps); }
  Outcome try_it(const Arguments& more = {}) const { return run(command() + Arguments{"--dry-run"} + more); }

  const Scratch scratch_;
  const fs::path home_ = scratch_ / "home";
};

TEST_F(DryRun, OfANewRun_SaysWhatItTakesAndLeavesNothing) {
  const fs::path told = scratch_ / "told";
  const Outcome outcome =
      try_it({"--on-event", "cat >>" + told.string(), "--status-html", scratch_ / "page"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(
      outcome.out,
      AllOf(HasSubstr("steps with 2 trainers and a checkpoint were made, read, and removed"),
            HasSubstr("s a step"), HasSubstr("1000000 steps take about"), HasSubstr("a trainer at most"),
            HasSubstr("at most 5 of them (--keep 3)"), HasSubstr("from a signal to the end")));
  EXPECT_EQ(names_below(home_), std::vector<std::string>());
  EXPECT_FALSE(fs::exists(told));
  EXPECT_FALSE(fs::exists(scratch_ / "page"));
}

TEST_F(DryRun, OfARunThatHasBegun_ChangesNothing) {
  ASSERT_EQ(run(command(5)).exit_code, 0);
  const std::string before = digest_of(home_ / "runs/one");
  const auto names = names_below(home_);
  const Outcome outcome = try_it();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("the 999995 steps that are left take about"));
  EXPECT_EQ(names_below(home_), names);
  EXPECT_EQ(digest_of(home_ / "runs/one"), before);
  // What a resume refuses is refused before any step.
  const Outcome other = try_it({"--seed", "77"});
  EXPECT_EQ(other.exit_code, 78) << other.err;
  EXPECT_THAT(other.out, Not(HasSubstr("it is tried")));
  EXPECT_THAT(run(command(5) + Arguments{"--dry-run"}).out, HasSubstr("the run is complete"));
}

TEST_F(DryRun, OfARunOfOneStep_IsEnough) {
  const Outcome outcome = run(command(1) + Arguments{"--dry-run"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("1 step with 2 trainers"));
}

TEST_F(DryRun, WhoseStepsFail_SaysWhyAndKeepsTheLogs) {
  const Outcome outcome = try_it({"--lr", "1e30", "--optimizer", "sgd"});
  EXPECT_EQ(outcome.exit_code, 70) << outcome.out;
  EXPECT_THAT(outcome.err, HasSubstr("not finite"));
  EXPECT_THAT(outcome.out, HasSubstr("its logs are in " + home_.string()));
}

TEST_F(DryRun, OfALiveRun_IsRefused) {
  Program live(Arguments{rekindle()} + command());
  ASSERT_TRUE(eventually([&] { return reached_step(home_ / "runs/one") >= 2 || !live.running(); }));
  const Outcome outcome = try_it();
  EXPECT_EQ(outcome.exit_code, 78) << outcome.out;
  EXPECT_THAT(outcome.out, Not(HasSubstr("it is tried")));
}

TEST_F(DryRun, WhoseDataAreMissing_HasMadeNothing) {
  const Outcome outcome = try_it({"--data", scratch_ / "nowhere"});
  EXPECT_EQ(outcome.exit_code, 78) << outcome.out;
  EXPECT_EQ(names_below(home_), std::vector<std::string>());
}

TEST_F(DryRun, OnAPortThatIsTaken_Warns) {
  Program other(Arguments{"/usr/bin/env", "XDG_STATE_HOME=" + (scratch_ / "state").string(), rekindle(),
                          "board", scratch_.path(), "--port", "0"});
  ASSERT_TRUE(eventually([&] { return other.printed().find("/?token") != std::string::npos; }));
  const std::string said = other.printed();
  const std::size_t at = said.find("127.0.0.1:") + 10;
  const std::string port = said.substr(at, said.find('/', at) - at);
  EXPECT_THAT(try_it({"--status-port", port}).out,
              HasSubstr("another program listens at port " + port + " of --status-port"));
}

TEST_F(DryRun, OnAStorageThatIsTooSmall_IsAnError) {
  const SmallDisk disk(scratch_ / "disk", 60);
  if (!disk.mounted()) REKINDLE_SKIP(Needs::kRoot, "cannot mount a file system");
  const Outcome outcome =
      run(mnist_run(disk.path() / "run", 1, 1000) + Arguments{"--dry-run", "--keep", "10"});
  EXPECT_EQ(outcome.exit_code, 78) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("the checkpoints need"));
  EXPECT_EQ(names_below(disk.path()), std::vector<std::string>());
}

// The kernel's figures of memory are those of a small machine.
TEST_F(DryRun, WhereMemoryIsScarce_Warns) {
  const auto able =
      run_command({"unshare", "--mount", "/bin/sh", "-c", "mount --bind /etc/hostname /proc/meminfo"},
                  std::chrono::seconds(10));
  if (!able || !able->ok()) REKINDLE_SKIP(Needs::kRoot, "cannot mount a file");
  const auto tried = [&](int free_mib) {
    const fs::path figures = scratch_ / "meminfo";
    std::ofstream(figures) << "MemTotal: 4000000 kB\nMemFree: " << free_mib * 1024
                           << " kB\nMemAvailable: " << free_mib * 1024 << " kB\n";
    const Outcome outcome =
        Program(Arguments{"/usr/bin/unshare", "--mount", "/bin/sh", "-c",
                          "mount --bind \"$0\" /proc/meminfo && exec \"$@\"", figures, rekindle()} +
                command() + Arguments{"--dry-run"})
            .wait();
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.out;
  };
  const auto warning = HasSubstr("warning: the trainers need nearly all memory that is free");
  EXPECT_THAT(tried(100), warning);
  EXPECT_THAT(tried(3500), Not(warning));
}

TEST_F(DryRun, Interrupted_LeavesNothing) {
  Program program(Arguments{rekindle()} + command() + Arguments{"--dry-run"});
  ASSERT_TRUE(eventually([&] { return !parts_of(home_, "trainer").empty() || !program.running(); }));
  program.signal(SIGINT);
  EXPECT_EQ(program.wait().exit_code, 130);
  EXPECT_TRUE(eventually([&] { return processes_with(home_.string()).empty(); }));
  EXPECT_EQ(names_below(home_), std::vector<std::string>());
}

TEST_F(DryRun, InASlurmJob_IsRefused) {
  const Outcome outcome = run(mnist_job("slurm", home_ / "run") + Arguments{"--dry-run"});
  EXPECT_EQ(outcome.exit_code, 64) << outcome.out;
  EXPECT_THAT(outcome.err, HasSubstr("rekindle local --dry-run"));
}

}  // namespace
}  // namespace rekindle::process_test
