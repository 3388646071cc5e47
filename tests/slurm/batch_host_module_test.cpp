// A job that has lost the node of its batch script.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "../temporary_directory.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "slurm/cause.hpp"
#include "slurm/commands.hpp"
#include "slurm/deadline.hpp"
#include "slurm/requeue.hpp"

namespace rekindle::slurm {
namespace {

// The answer of Slurm 22.05 for a job that began on n[1-3] with its batch script on n1.
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

// For an ending job, Slurm shows only the nodes on which the job has not yet ended.
TEST(SlurmBatchHostLost, JobThatEndsInAnotherWay_HasNotLostIt) {
  EXPECT_FALSE(has_lost_batch_host(facts("RUNNING", "None", "0:0"), {"n1", "n2", "n3"}));
  EXPECT_FALSE(has_lost_batch_host(facts("RUNNING", "None", "0:0"), {})) << "the nodes are not known";
  EXPECT_FALSE(has_lost_batch_host(facts("COMPLETING", "None", "0:15"), {"n2"})) << "cancelled";
  EXPECT_FALSE(has_lost_batch_host(facts("COMPLETING", "JobLaunchFailure", "0:15"), {"n2"})) << "cancelled";
  EXPECT_FALSE(has_lost_batch_host(facts("COMPLETING", "TimeLimit", "0:15"), {"n2"}));
  EXPECT_FALSE(has_lost_batch_host(facts("COMPLETING", "NonZeroExitCode", "75:0"), {"n2"}));
  EXPECT_FALSE(has_lost_batch_host(facts("PENDING", "None", "0:0"), {"n2"}));
}

TEST(SlurmBatchHostLost, NodeThatWasSetDown_IsDown) {
  EXPECT_TRUE(parse_down("NodeName=n1 Arch=x86_64 CoresPerSocket=1 OS=Linux State=DOWN ThreadsPerCore=1"));
  EXPECT_TRUE(parse_down("NodeName=n1 OS=Linux State=DOWN*+DRAIN ThreadsPerCore=1"));
  EXPECT_FALSE(parse_down("NodeName=n1 OS=Linux State=IDLE+COMPLETING Reason=State=DOWN"));
  EXPECT_FALSE(parse_down(""));
}

// The answer of Slurm 22.05 on the node of the job's batch script.
TEST(SlurmBatchHostLost, ListedPids_TellWhetherTheBatchStepRuns) {
  const std::string head = "PID      JOBID    STEPID   LOCALID GLOBALID\n";
  const std::string own = "4711     7        3        0       0       \n";
  const std::string batch = "4700     7        batch    0       0       \n";
  const auto runs = parse_batch_step(head + batch + own);
  const auto dead = parse_batch_step(head + own);
  ASSERT_TRUE(runs && dead);
  EXPECT_TRUE(*runs);
  EXPECT_FALSE(*dead);
  EXPECT_FALSE(parse_batch_step(head)) << "scontrol could not look";
  EXPECT_FALSE(parse_batch_step(""));
}

// Of a job with --gpus, Slurm would have to give the step the GPUs of all nodes, and starts it nowhere.
TEST(SlurmBatchHostLost, StepThatLooks_AsksForNoGpu) {
  TemporaryDirectory folder;
  std::ofstream(folder.path() / "srun")
      << "#!/bin/sh\ncase \"$*\" in *--gres=none*) echo '4700 7 batch 0 0' ;; esac\n";
  std::filesystem::permissions(folder.path() / "srun", std::filesystem::perms::owner_all);
  const std::string path = environment_variable("PATH");
  ::setenv("PATH", str(folder.path().string(), ":", path).c_str(), 1);
  EXPECT_TRUE(batch_step_runs("7", "n1").value_or(false));
  ::setenv("PATH", path.c_str(), 1);
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

TEST(SlurmBatchHostLost, ScriptThatWasKilled_IsRequeuedButForStopAndEnd) {
  Seen seen;
  seen.script_killed = true;
  seen.signal = SIGUSR1;
  seen.exit_code = 75;
  seen.facts = facts("COMPLETING", "JobLaunchFailure", "0:9");
  EXPECT_EQ(judge(seen), Cause::kScriptKilled);
  EXPECT_TRUE(wants_requeue(Cause::kScriptKilled, SIGUSR1));
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
