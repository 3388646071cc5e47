// A batch script that does not exec rekindle: its shell gets the signal and dies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "slurm/cause.hpp"
#include "slurm/commands.hpp"
#include "slurm/preflight.hpp"
#include "slurm/requeue.hpp"

namespace rekindle::slurm {
namespace {

// The answer of Slurm 22.05 when SIGUSR1 has killed bash and steps of the job still run.
std::string answer(const std::string& state, const std::string& exit_code, std::uint64_t restarts = 0) {
  return "JobId=7 JobName=a\n   UserId=root(0) GroupId=root(0) MCS_label=N/A\n   JobState=" + state +
         " Reason=JobLaunchFailure Dependency=(null)\n   Requeue=1 Restarts=" + std::to_string(restarts) +
         " BatchFlag=1 Reboot=0 ExitCode=" + exit_code +
         "\n   StartTime=2026-11-23T13:28:38 EndTime=2026-11-23T13:28:43 Deadline=N/A\n   NodeList=n1\n";
}

JobFacts facts(const std::string& state, const std::string& exit_code, std::uint64_t restarts = 0) {
  return *parse_job(answer(state, exit_code, restarts));
}

Seen saved(const JobFacts& job, int signal = SIGTERM) {
  Seen seen;
  seen.exit_code = 75;
  seen.signal = signal;
  seen.facts = job;
  return seen;
}

TEST(SlurmShell, SignalThatEndedTheBatchScript_IsRead) {
  EXPECT_EQ(facts("COMPLETING", "0:10").batch_signal, SIGUSR1);
  EXPECT_EQ(facts("COMPLETING", "0:15").batch_signal, SIGTERM);
  EXPECT_EQ(facts("FAILED", "75:0").batch_signal, 0);
  EXPECT_EQ(facts("FAILED", "rubbish").batch_signal, 0);
}

TEST(SlurmShell, ShellDiedOfUsr1_IsNoCancellation) {
  for (const char* state : {"COMPLETING", "FAILED"}) {
    for (const int signal : {SIGTERM, SIGUSR1}) {
      const Cause cause = judge(saved(facts(state, "0:10"), signal));
      EXPECT_EQ(cause, Cause::kShellKilled) << state;
      EXPECT_TRUE(wants_requeue(cause, signal));
    }
  }
}

TEST(SlurmShell, EndsForOtherReasons_AreJudgedAsBefore) {
  EXPECT_EQ(judge(saved(facts("COMPLETING", "0:15"))), Cause::kCancelled);
  EXPECT_EQ(judge(saved(facts("COMPLETING", "0:0"))), Cause::kCancelled);
  EXPECT_EQ(judge(saved(facts("CANCELLED", "0:10"))), Cause::kCancelled);
  EXPECT_EQ(judge(saved(facts("PENDING", "0:10", 1))), Cause::kRequeued);
  EXPECT_EQ(judge(saved(facts("RUNNING", "0:10"))), Cause::kOperator);  // of the previous attempt
  Seen finished = saved(facts("COMPLETING", "0:10"));
  finished.exit_code = 0;
  EXPECT_EQ(judge(finished), Cause::kFinished);
  Seen stopped = saved(facts("COMPLETING", "0:10"));
  stopped.stop_asked = true;
  EXPECT_EQ(judge(stopped), Cause::kStopped);
}

// The number of requeue requests for a job with these facts.
int requests(const JobFacts& seen, Requeued& done) {
  int calls = 0;
  std::chrono::steady_clock::time_point now;
  JobFacts job = seen;
  const auto requeue = [&](bool) -> Result<bool> {
    ++calls;
    ++job.restarts;
    return true;
  };
  done = requeue_once({[&]() -> Result<JobFacts> { return job; }, requeue,
                       [&](std::chrono::milliseconds pause) { now += pause; }, [&] { return now; }},
                      0, std::chrono::milliseconds(60000));
  return calls;
}

TEST(SlurmShell, ShellDiedOfUsr1_IsRequeuedOnce) {
  Requeued done;
  EXPECT_EQ(requests(facts("COMPLETING", "0:10"), done), 1);
  EXPECT_TRUE(done.accepted);
  EXPECT_EQ(requests(facts("COMPLETING", "0:15"), done), 0);
  EXPECT_EQ(done.detail, "the job was cancelled");
}

TEST(SlurmShell, ParentThatIsNotSlurm_IsWarnedOf) {
  Preflight known;
  known.script = "#!/bin/bash\n#SBATCH --signal=B:USR1@60 --open-mode=append\nrekindle slurm | tee out\n";
  known.lead_seconds = 30;
  EXPECT_THAT(preflight(known), testing::IsEmpty());
  known.parent = "slurm_script";
  EXPECT_THAT(preflight(known), testing::ElementsAre(testing::AllOf(testing::HasSubstr("slurm_script"),
                                                                    testing::HasSubstr("exec rekindle"),
                                                                    testing::HasSubstr("> >(tee"))));
}

}  // namespace
}  // namespace rekindle::slurm
