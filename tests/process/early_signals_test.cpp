// Signals in a Slurm job before its run begins: no state must be saved, but the next attempt must be
// arranged. Two shell scripts act as Slurm; they do not answer for a while.
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>

#include "base/files.hpp"
#include "base/text.hpp"
#include "harness.hpp"
#include "run/layout.hpp"

namespace rekindle::process_test {
namespace {

class EarlySignals : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(bin_);
    std::ofstream(bin_ / "scontrol") << "#!/bin/sh\ncd " << scratch_.path() << R"sh(
[ -e silent ] && { echo 'Unable to contact slurm controller' >&2; exit 1; }
case "$1 $2" in
  'show job')
    printf 'JobId=7 JobName=a\n   UserId=root(0)\n   JobState=RUNNING Reason=None Dependency=(null)\n'
    printf '   Requeue=1 Restarts=%s ExitCode=0:0\n' "$(grep -c . calls)"
    printf '   StartTime=2026-01-01T00:00:00 EndTime=%s\n' "$(date -d '+30 sec' +%Y-%m-%dT%H:%M:%S)"
    printf '   NodeList=n1\n   BatchHost=n1\n' ;;
  'show hostnames') echo n1 ;;
  requeue*) echo "$@" >>calls ;;
esac
)sh";
    std::ofstream(bin_ / "srun") << "#!/bin/sh\n";
    for (const char* program : {"scontrol", "srun"}) fs::permissions(bin_ / program, fs::perms::owner_all);
    std::ofstream(scratch_ / "calls") << "";
    std::ofstream(scratch_ / "silent") << "";
  }
  Arguments in_the_job(const Arguments& command) const {
    return Arguments{"/usr/bin/env",
                     "SLURM_JOB_ID=7",
                     "SLURMD_NODENAME=n1",
                     "SLURM_JOB_NODELIST=n1",
                     "SLURM_JOB_CPUS_PER_NODE=2",
                     "PATH=" + bin_.string() + ":/bin:/usr/bin",
                     rekindle()} +
           command;
  }
  std::string calls() const { return read_text(scratch_ / "calls").value_or("?"); }

  Scratch scratch_;
  const fs::path bin_ = scratch_ / "bin", dir_ = scratch_ / "run";
};

TEST_F(EarlySignals, TimeLimitWhileSlurmIsAsked_RequeuedAndNothingBegun) {
  Program job(in_the_job(mnist_job("slurm", dir_, 100)));
  ASSERT_TRUE(eventually(
      [&] { return job.printed().find("waiting for Slurm") != std::string::npos || !job.running(); }));
  job.signal(SIGUSR1);
  fs::remove(scratch_ / "silent");
  ASSERT_TRUE(eventually([&] { return !calls().empty() || !job.running(); }));
  job.signal(SIGTERM);  // Slurm sends SIGTERM when it stops the job that it has requeued
  const Outcome outcome = job.wait();
  EXPECT_EQ(outcome.exit_code, 75) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find("requeued (time limit)"), std::string::npos) << outcome.out << outcome.err;
  EXPECT_EQ(calls(), "requeue Incomplete 7\n");
  EXPECT_FALSE(fs::exists(dir_ / "terms")) << "a run began";
}

// The signal is there before the options are read. (It is blocked: before the program blocks it by itself, it
// would end the job, as it does a shell.)
TEST_F(EarlySignals, TimeLimitBeforeTheProgramBegins_Requeued) {
  fs::remove(scratch_ / "silent");
  const Arguments on_the_line = mnist_job("slurm", dir_, 100);
  Arguments in_a_file = on_the_line;
  ASSERT_EQ(in_a_file[1], "--run-dir");
  in_a_file[1] = "--config";
  in_a_file[2] = scratch_ / "config.toml";
  std::ofstream(in_a_file[2]) << "run-dir = \"" << dir_.string() << "-%j\"\n";
  const Arguments signalled = {"/usr/bin/env",
                               "--block-signal=USR1",
                               "--ignore-signal=USR1",
                               "sh",
                               "-c",
                               "kill -USR1 $$ && exec \"$@\"",
                               "sh"};
  for (const Arguments& command : {on_the_line, in_a_file}) {
    std::ofstream(scratch_ / "calls") << "";
    Program job(signalled + in_the_job(command));
    ASSERT_TRUE(eventually([&] { return !calls().empty() || !job.running(); }));
    job.signal(SIGTERM);  // Slurm's
    const Outcome outcome = job.wait();
    EXPECT_EQ(outcome.exit_code, 75) << outcome.out << outcome.err;
    EXPECT_EQ(calls(), "requeue Incomplete 7\n") << outcome.out << outcome.err;
  }
  EXPECT_TRUE(fs::exists(dir_.string() + "-7"));
}

// A script may take minutes up to its rekindle.run(). Here its interpreter never answers.
TEST_F(EarlySignals, TimeLimitWhileAScriptDescribesItsModel_RequeuedIfTheRunDirectoryIsKnown) {
  fs::remove(scratch_ / "silent");
  const fs::path python = scratch_ / "python", asked = scratch_ / "asked";
  std::ofstream(python) << "#!/bin/sh\n: >" << asked.string() << "\nexec sleep 600\n";
  fs::permissions(python, fs::perms::owner_all);
  std::ofstream(scratch_ / "train.py") << "";
  const Arguments known = {"slurm", "--run-dir", dir_, scratch_ / "train.py"},
                  unknown = {"slurm", scratch_ / "train.py"};
  for (const bool knows : {true, false}) {
    SCOPED_TRACE(knows);
    fs::remove(asked);
    Program job(Arguments{"/usr/bin/env", "REKINDLE_PYTHON=" + python.string()} +
                in_the_job(knows ? known : unknown));
    ASSERT_TRUE(eventually([&] { return fs::exists(asked) || !job.running(); }));
    job.signal(SIGUSR1);
    if (knows) {
      ASSERT_TRUE(eventually([&] { return !calls().empty() || !job.running(); }));
      job.signal(SIGTERM);  // Slurm's
    }
    const Outcome outcome = job.wait();
    EXPECT_EQ(outcome.exit_code, 75) << outcome.out << outcome.err;
    EXPECT_EQ(calls(), knows ? "requeue Incomplete 7\n" : "") << outcome.out << outcome.err;
    EXPECT_EQ(outcome.out.find("requeued (time limit)") != std::string::npos, knows) << outcome.out;
    EXPECT_EQ(outcome.err.find("before the script has called rekindle.run()") != std::string::npos, !knows)
        << outcome.err;
    std::ofstream(scratch_ / "calls") << "";
  }
}

TEST_F(EarlySignals, HelperThatWaitsForItsRun_RequeuedAtOnce) {
  fs::remove(scratch_ / "silent");
  Program helper(in_the_job({"join", dir_, "--wait", "30min"}));
  ASSERT_TRUE(eventually([&] { return can_be_ended(helper.pid()); }));
  helper.signal(SIGUSR1);
  const Outcome outcome = helper.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(calls(), "requeue Incomplete 7\n") << outcome.out << outcome.err;
}

// Only the records show whether the run is complete, and reading them takes half a minute in this test.
TEST_F(EarlySignals, TimeLimitWhileACompleteRunIsLookedAt_TheJobEndsAtOnce) {
  fs::remove(scratch_ / "silent");
  ASSERT_EQ(run(mnist_run(dir_, 1, 2)).exit_code, 0);
  const fs::path metrics = run::Layout(dir_).metrics().path();
  fs::resize_file(metrics, std::uint64_t{100} << 30);
  Program job(in_the_job(mnist_job("slurm", dir_, 2)));
  const auto reads = [&] {
    std::error_code code;
    for (const auto& entry : fs::directory_iterator(str("/proc/", job.pid(), "/fd"), code)) {
      if (fs::read_symlink(entry.path(), code) == metrics) return true;
    }
    return false;
  };
  ASSERT_TRUE(eventually([&] { return reads() || !job.running(); }));
  job.signal(SIGTERM);
  const Outcome outcome = job.wait();
  EXPECT_NE(outcome.err.find("ended by SIGTERM"), std::string::npos) << outcome.out << outcome.err;
  EXPECT_EQ(outcome.out.find("the run is complete"), std::string::npos) << outcome.out;
}

// Half a minute of silence would make the host in the claim a dead one.
TEST_F(EarlySignals, SignalWhileAnotherHostMayHoldTheRun_EndsWithoutTakingIt) {
  fs::create_directories(dir_ / "terms");
  for (const fs::path& folder : {dir_, dir_ / "terms"}) fs::permissions(folder, fs::perms::owner_all);
  std::ofstream(dir_ / "terms/0001")
      << R"({"host":"elsewhere","boot_id":"x","pid_namespace":"","pid":1,"start_ticks":1,"since":"then"})";
  for (const auto& [signal, exit_code] : {std::pair(SIGINT, 130), std::pair(SIGTERM, 75)}) {
    Program local(Arguments{rekindle()} + mnist_run(dir_, 1, 4));
    ASSERT_TRUE(eventually([&] {
      return local.printed().find("host elsewhere had this run last") != std::string::npos ||
             !local.running();
    }));
    local.signal(signal);
    const Outcome outcome = local.wait();
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.out << outcome.err;
    EXPECT_NE(outcome.out.find("before the first step: there was nothing to save"), std::string::npos)
        << outcome.out << outcome.err;
    EXPECT_FALSE(fs::exists(dir_ / "terms/0002"));
  }
}

}  // namespace
}  // namespace rekindle::process_test
