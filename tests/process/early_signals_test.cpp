// Signals in a Slurm job before its run begins: there is nothing to save, but a next attempt to see to. Slurm
// is two shell scripts here, which do not answer for a while.
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>

#include "base/files.hpp"
#include "harness.hpp"

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
  job.signal(SIGTERM);  // as Slurm takes the job down that it has requeued
  const Outcome outcome = job.wait();
  EXPECT_EQ(outcome.exit_code, 75) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find("requeued (time limit)"), std::string::npos) << outcome.out << outcome.err;
  EXPECT_EQ(calls(), "requeue Incomplete 7\n");
  EXPECT_FALSE(fs::exists(dir_ / "terms")) << "a run began";
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

}  // namespace
}  // namespace rekindle::process_test
