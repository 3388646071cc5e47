// A job that has lost the node of its batch script.
#include <gtest/gtest.h>

#include <csignal>

#include "slurm/cause.hpp"
#include "slurm/commands.hpp"
#include "slurm/deadline.hpp"
#include "slurm/requeue.hpp"

namespace rekindle::slurm {
namespace {

// As Slurm 22.05 answers for a job that began on n[1-3] with its batch script on n1.
JobFacts facts(const std::string& state, const std::string& reason, const std::string& exit_code) {
  return *parse_job("JobId=7 JobName=a\n   UserId=root(0) GroupId=root(0) MCS_label=N/A\n   JobState=" +
                    state + " Reason=" + reason +
                    " Dependency=(null)\n   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=" + exit_code +
                    "\n   NodeList=n[2-3]\n   BatchHost=n1\n");
}

TEST(SlurmBatchHostLost, RunningWithoutIt_OrItsStepWasKilled) {
  EXPECT_EQ(facts("RUNNING", "None", "0:0").batch_host, "n1");
  EXPECT_TRUE(has_lost_batch_host(facts("RUNNING", "None", "0:0"), {"n2", "n3"}));
  EXPECT_TRUE(has_lost_batch_host(facts("COMPLETING", "JobLaunchFailure", "0:9"), {"n2", "n3"}));
}

// Slurm shows of a job that ends only the nodes that have not yet ended it.
TEST(SlurmBatchHostLost, JobThatEndsInAnotherWay_HasNotLostIt) {
  EXPECT_FALSE(has_lost_batch_host(facts("RUNNING", "None", "0:0"), {"n1", "n2", "n3"}));
  EXPECT_FALSE(has_lost_batch_host(facts("RUNNING", "None", "0:0"), {})) << "the nodes are not known";
  EXPECT_FALSE(has_lost_batch_host(facts("COMPLETING", "None", "0:15"), {"n2"})) << "cancelled";
  EXPECT_FALSE(has_lost_batch_host(facts("COMPLETING", "JobLaunchFailure", "0:15"), {"n2"})) << "cancelled";
  EXPECT_FALSE(has_lost_batch_host(facts("COMPLETING", "TimeLimit", "0:15"), {"n2"}));
  EXPECT_FALSE(has_lost_batch_host(facts("COMPLETING", "NonZeroExitCode", "75:0"), {"n2"}));
  EXPECT_FALSE(has_lost_batch_host(facts("PENDING", "None", "0:0"), {"n2"}));
}

TEST(SlurmBatchHostLost, IsRequeuedWhateverTheAttemptEndedWith_ButForStopAndEnd) {
  Seen seen;
  seen.batch_host_lost = true;
  seen.signal = SIGUSR1;
  for (const int exit_code : {70, 75}) {
    seen.exit_code = exit_code;
    EXPECT_EQ(judge(seen), Cause::kBatchHostLost);
  }
  EXPECT_TRUE(wants_requeue(Cause::kBatchHostLost, SIGTERM));
  seen.stop_asked = true;
  EXPECT_EQ(judge(seen), Cause::kStopped);
  seen.exit_code = 0;
  EXPECT_EQ(judge(seen), Cause::kFinished);
}

TEST(SlurmBatchHostLost, JobWhoseBatchStepWasKilled_IsRequeuedThoughItEnds) {
  int requeues = 0;
  const Queue queue{[] { return Result<JobFacts>(facts("COMPLETING", "JobLaunchFailure", "0:9")); },
                    [&](bool) -> Result<bool> { return ++requeues, true; }, [](std::chrono::milliseconds) {},
                    [] { return std::chrono::steady_clock::time_point(); }};
  EXPECT_TRUE(requeue_once(queue, 0, std::chrono::seconds(1)).accepted);
  EXPECT_EQ(requeues, 1);
}

}  // namespace
}  // namespace rekindle::slurm
