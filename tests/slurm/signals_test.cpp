// Jobs on real Slurm daemons that are signalled or stopped at any moment: their state is saved, and they are
// requeued once or not at all.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <random>

#include "../needs.hpp"
#include "../small_disk.hpp"
#include "base/text.hpp"
#include "cluster.hpp"

namespace rekindle::process_test {
namespace {

using Slurm = SlurmRun;

bool blocks(pid_t pid, int signal) {
  std::ifstream status(str("/proc/", pid, "/status"));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("SigBlk:"))
      return (std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1) != 0;
  }
  return false;
}

// The signal goes twice to the batch script, and once only to the tasks.
TEST_F(Slurm, SignalledByHand_SavedAndRequeuedOnceEach) {
  begin({"--nodes=2"});
  const std::string signal = "scancel --signal=USR1 --batch " + job_;
  cluster_->command({"/bin/sh", "-c", signal + " & " + signal + " & wait"});
  wait_for_restart(1);
  const std::uint64_t before = reached_step(dir());
  cluster_->command({"scancel", "--signal=USR1", job_});
  wait_for_restart(2);
  EXPECT_GE(attempts("slurm-begin").back()["step"], before);
  stop_and_compare();
  EXPECT_EQ(cluster_->restarts(job_), 2U);
}

// The command of --on-event never ends. It notes that it was still there when the run asked for the requeue:
// at once, or at SIGTERM, which it gets when Slurm or the run ends it.
TEST_F(Slurm, SignalledWhileAHookHangs_IsRequeuedBeforeTheHookEnds) {
  const fs::path hook = scratch_ / "hook", begun = scratch_ / "begun.0", asked = scratch_ / "asked.0";
  std::ofstream(hook) << "attempt=${SLURM_RESTART_COUNT:-0}\n"
                      << "note() { [ -e " << (dir() / "requeue.json").string() << " ] && : >"
                      << (scratch_ / "asked.").string() << "$attempt; }\n"
                      << "trap 'note; exit' TERM\n"
                      << ": >" << (scratch_ / "begun.").string() << "$attempt\n"
                      << "until note; do sleep 0.1; done\n"
                      << "exec tail -f " << hook.string() << " >/dev/null\n";
  begin({"--nodes=1"}, {"--on-event", "exec sh " + hook.string()});
  ASSERT_TRUE(eventually([&] { return fs::exists(begun); }));
  cluster_->command({"scancel", "--signal=USR1", "--batch", job_});
  wait_for_restart(1);
  EXPECT_TRUE(fs::exists(asked)) << "the hook had ended before";
  EXPECT_EQ(attempts("slurm-end").front()["requeued"], true);
  stop_and_compare();
  EXPECT_EQ(cluster_->restarts(job_), 1U);
  EXPECT_TRUE(eventually([&] { return processes_with(hook.string()).empty(); }));
}

// The odd signals come while the run trains, evaluates (an epoch has 6 steps) or writes (after each step);
// the even ones while an attempt starts: the first step is seconds away when Slurm has started the batch
// script.
TEST_F(Slurm, SignalledAtRandomMoments_RequeuedOnceEach) {
  const char* given = std::getenv("REKINDLE_SEED");
  const unsigned seed = given != nullptr ? static_cast<unsigned>(std::atoi(given)) : std::random_device{}();
  std::cout << "REKINDLE_SEED=" << seed << std::endl;
  std::mt19937 random(seed);
  begin({"--nodes=2"}, {"--checkpoint-every", "1"});
  for (std::uint64_t i = 1; i <= 5; ++i) {
    const bool starts = i % 2 == 0;
    const int ms = std::uniform_int_distribution(0, starts ? 500 : 2500)(random);
    ::usleep(1000U * static_cast<unsigned>(ms));
    cluster_->command({"scancel", "--signal=USR1", "--batch", job_});
    ASSERT_TRUE(eventually([&] { return cluster_->restarts(job_) == i; })) << i << " after " << ms << " ms";
    ASSERT_TRUE(eventually([&] { return attempts("slurm-end").size() >= i; }))
        << i << " after " << ms << " ms";
    const auto ends = attempts("slurm-end");
    const std::uint64_t saved = ends[i - 1].value("step", std::uint64_t{0}),
                        before = i == 1 ? 0 : ends[i - 2].value("step", std::uint64_t{0});
    if (starts)
      EXPECT_EQ(saved, before) << "signal " << i << " after " << ms << " ms came after the attempt's start";
    else
      EXPECT_GT(saved, before) << "signal " << i << " after " << ms << " ms came before the first step";
    ASSERT_TRUE(eventually([&] { return cluster_->state(job_) == "RUNNING"; }));
    if (starts) wait_for_steps(2);
  }
  wait_for_steps(5);
  stop_and_compare();
  EXPECT_EQ(cluster_->restarts(job_), 5U);
}

// During the check of the data and the copy of the programs, which take a second. The signal must take effect
// as soon as a coordinator runs. In the first attempt, and in a later attempt.
TEST_F(Slurm, SignalledInTheFirstSecond_NotLost) {
  job_ = cluster_->submit({"--nodes=1"}, script());
  for (std::uint64_t i = 1; i <= 2; ++i) {
    ASSERT_TRUE(eventually([&] { return !parts_of(dir(), "supervisor").empty(); }));
    ASSERT_TRUE(eventually([&] {  // by then the program has started and printed its first lines
      const auto pids = parts_of(dir(), "supervisor");
      return !pids.empty() && blocks(pids.front(), SIGUSR1);
    }));
    cluster_->command({"scancel", "--signal=USR1", "--batch", job_});
    ASSERT_TRUE(eventually([&] { return cluster_->restarts(job_) == i; })) << i;
    ASSERT_TRUE(eventually([&] { return parts_of(dir(), "supervisor").empty(); }));
  }
  wait_for_step(5);
  stop_and_compare();
}

// Slurm's signal before a time limit does not cancel a person's stop request. (In a run directory that is
// reached through a link, like many home directories.)
TEST_F(Slurm, StoppedAndSignalled_StaysStopped) {
  fs::create_directories(scratch_ / "real");
  fs::create_directory_symlink(scratch_ / "real", scratch_ / "link");
  run_dir_ = scratch_ / "link" / "run";
  begin({"--nodes=1"});
  EXPECT_EQ(run({"stop", dir()}).exit_code, 0);
  cluster_->command({"scancel", "--signal=USR1", "--batch", job_});
  wait_until_over();
  EXPECT_EQ(cluster_->restarts(job_), 0U);
  EXPECT_EQ(attempts("slurm-end").back()["cause"], "rekindle stop");
  finish_and_compare();
}

// The run is complete or nearly complete: there must be exactly the necessary attempts.
TEST_F(Slurm, SignalledAfterTheLastStep_EndsComplete) {
  begin({"--nodes=1"}, {"--steps", "60"});
  wait_for_step(60);
  cluster_->command({"scancel", "--signal=USR1", "--batch", job_});
  wait_until_over();
  EXPECT_EQ(cluster_->state(job_), "COMPLETED");
  EXPECT_LE(cluster_->restarts(job_), 1U);
  EXPECT_EQ(digest_of(dir()), quiet_digest(60));
}

TEST_F(Slurm, SignalledWithAFullDisk_GoesOnFromTheCheckpointBefore) {
  const SmallDisk small(scratch_ / "small", kRoomForTheProgramsMib);
  if (!small.mounted()) REKINDLE_SKIP(Needs::kMounts, "needs the right to mount a tmpfs");
  run_dir_ = small.path() / "run";
  begin({"--nodes=1"}, {"--checkpoint-every", "5"});
  wait_until_printed("is committed");
  small.fill();
  wait_until_printed("could not be written");
  cluster_->command({"scancel", "--signal=USR1", "--batch", job_});
  ASSERT_TRUE(eventually([&] { return cluster_->restarts(job_) == 1; })) << output();
  small.empty();
  wait_for_restart(1);
  stop_and_compare();
  EXPECT_EQ(cluster_->restarts(job_), 1U);
}

// Slurm ends the attempt before the run has received the stop. The next attempt must not train.
TEST_F(Slurm, StoppedAndRequeuedAtOnce_StaysStopped) {
  begin({"--nodes=1"});
  for (const pid_t pid : parts_of(dir(), "coordinator")) ::kill(pid, SIGSTOP);
  EXPECT_EQ(run({"stop", dir()}).exit_code, 0);
  cluster_->command({"scontrol", "requeue", job_});
  ASSERT_TRUE(eventually([&] { return cluster_->restarts(job_) == 1; }));
  wait_until_over();
  ASSERT_NO_FATAL_FAILURE(expect_over(job_, "FAILED", 75));
  EXPECT_EQ(cluster_->restarts(job_), 1U);
  EXPECT_TRUE(printed("rekindle stop was called during the previous attempt"));
  EXPECT_EQ(attempts("slurm-end").back()["cause"], "rekindle stop");
  job_ = cluster_->submit({}, script());
  wait_for_steps(5);
  stop_and_compare();
}

}  // namespace
}  // namespace rekindle::process_test
