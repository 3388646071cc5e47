// Jobs on real Slurm daemons that Slurm or an operator ends or changes: the next attempt goes on, and the
// bits equal those of an undisturbed run.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <ctime>
#include <fstream>
#include <sstream>

#include "base/files.hpp"
#include "base/text.hpp"
#include "cluster.hpp"
#include "run/layout.hpp"

namespace rekindle::process_test {
namespace {

using Slurm = SlurmRun;

// One requeue for each attempt. Each attempt begins exactly where the previous attempt ended.
TEST_F(Slurm, ThreeTimeLimits_OneRequeueEachAndSameBits) {
  // Slurm checks every 30 s, and so may signal up to 30 s early. With a limit of a minute, the signal may
  // arrive at once.
  job_ = cluster_->submit({"--nodes=1", "--time=1"}, script({}, "", "--signal=B:USR1@10"));
  wait_for_step(5);
  wait_for_restart(3);
  stop_and_compare();
  EXPECT_TRUE(printed("requeued (time limit): the next attempt goes on from step "));
  EXPECT_FALSE(printed("run the same command again")) << "Slurm does that: " << output();
  EXPECT_EQ(output().find_first_of("\r\033"), std::string::npos) << "a log is no terminal: " << output();
  const auto begins = attempts("slurm-begin"), ends = attempts("slurm-end");
  ASSERT_EQ(begins.size(), ends.size());
  ASSERT_GE(ends.size(), 4U);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    EXPECT_EQ(begins[i]["restarts"], i);
    EXPECT_EQ(begins[i]["why"], i == 0 ? "submitted" : "requeued after time limit");
    EXPECT_EQ(ends[i]["cause"], i + 1 < ends.size() ? "time limit" : "rekindle stop");
    if (i > 0) {
      EXPECT_EQ(begins[i]["step"], ends[i - 1]["step"]);
    }
  }
}

TEST_F(Slurm, PreemptedWithoutGrace_GoesOnWhenNodesAreFree) {
  begin({"--nodes=2", "--partition=low-now", "--nodelist=n[1-2]"});
  const std::uint64_t before = reached_step(dir());
  cluster_->take("n[1-2]");
  wait_for_restart(1);
  EXPECT_GE(attempts("slurm-begin").back()["step"], before);
  EXPECT_TRUE(attempts("slurm-end").front()["requeued"].is_null());  // Slurm had requeued the job
  stop_and_compare();
}

// Slurm cancels the job, which asks for its requeue while it ends.
TEST_F(Slurm, PreemptedWithoutGraceByCancel_RequeuesItself) {
  begin({"--nodes=2", "--partition=low-cancel", "--nodelist=n[1-2]"});
  const std::uint64_t before = reached_step(dir());
  cluster_->take("n[1-2]");
  wait_for_restart(1);
  EXPECT_GE(attempts("slurm-begin").back()["step"], before);
  EXPECT_EQ(attempts("slurm-end").front()["cause"], "preemption");
  EXPECT_EQ(attempts("slurm-end").front()["requeued"], true);
  stop_and_compare();
  EXPECT_EQ(cluster_->restarts(job_), 1U);
}

TEST_F(Slurm, OperatorRequeues_GoesOnOnce) {
  begin({"--nodes=2"});
  cluster_->command({"scontrol", "requeue", job_});
  wait_for_restart(1);
  EXPECT_EQ(attempts("slurm-end").front()["cause"], "requeued by Slurm or an operator");
  EXPECT_TRUE(printed("Slurm has requeued this job"));
  stop_and_compare();
  EXPECT_EQ(cluster_->restarts(job_), 1U);
}

// sbatch --nodes=2-4: each attempt has another number of nodes.
TEST_F(Slurm, AsManyNodesAsThereAre_SameBits) {
  begin({"--nodes=2-4"});
  const std::string other =
      cluster_->submit({"--exclusive", "--nodelist=n4", "--output=/dev/null"}, sleeper());
  cluster_->command({"scontrol", "requeue", job_});
  wait_for_restart(1);
  EXPECT_EQ(cluster_->state(other), "RUNNING");
  EXPECT_EQ(attempts("slurm-begin")[0]["nodes"], 4);
  EXPECT_EQ(attempts("slurm-begin")[1]["nodes"], 3);
  EXPECT_TRUE(eventually([&] { return trainers_now(dir()) == 3; }));
  stop_and_compare();
}

TEST_F(Slurm, Cancelled_SavedWithinKillWaitAndNotRequeued) {
  begin({"--nodes=2"});
  const std::uint64_t before = reached_step(dir());
  cluster_->command({"scancel", job_});
  wait_until_over();
  EXPECT_EQ(cluster_->restarts(job_), 0U);
  ASSERT_EQ(attempts("slurm-end").size(), 1U);
  EXPECT_EQ(attempts("slurm-end")[0]["cause"], "cancelled");
  EXPECT_GE(attempts("slurm-end")[0]["step"], before);
  EXPECT_TRUE(printed("is not requeued"));
  finish_and_compare();
}

TEST_F(Slurm, JobThatMayNotBeRequeued_SaysSoAndIsSaved) {
  begin({"--nodes=1", "--no-requeue"});
  EXPECT_TRUE(printed("warning: this job may not be requeued"));
  cluster_->command({"scancel", "--signal=USR1", "--batch", job_});
  wait_until_over();
  ASSERT_NO_FATAL_FAILURE(expect_over(job_, "FAILED", 75));
  EXPECT_TRUE(printed("is saved, but job " + job_ + " is not requeued"));
  EXPECT_EQ(cluster_->restarts(job_), 0U);
  finish_and_compare();
}

TEST_F(Slurm, Suspended_NobodyIsLost) {
  begin({"--nodes=2"});
  cluster_->command({"scontrol", "suspend", job_});
  ::sleep(12);  // more than --lost-after
  const std::uint64_t before = reached_step(dir());
  cluster_->command({"scontrol", "resume", job_});
  wait_for_step(before + 20);
  const auto log = read_text(run::Layout(dir()).log("coordinator"));
  EXPECT_EQ(log->find("was lost"), std::string::npos) << *log;
  stop_and_compare();
}

// SIGTERM is the job's first signal.
TEST_F(Slurm, TimeLimitWithoutSignal_SavedWithinKillWaitAndRequeued) {
  job_ = cluster_->submit({"--nodes=1", "--time=1"}, script({}, "", "--signal=B:CONT@1"));
  wait_for_step(5);
  EXPECT_TRUE(printed("CONT is not the signal that asks for a requeue"));
  wait_for_restart(1);
  EXPECT_EQ(attempts("slurm-end").front()["cause"], "time limit");
  EXPECT_EQ(attempts("slurm-begin").back()["step"], attempts("slurm-end").front()["step"]);
  stop_and_compare();
}

// A job inherits the complete environment of the job that submitted it.
TEST_F(Slurm, SubmittedFromAnotherJob_RequeuesItself) {
  for (const auto& [name, value] :
       {std::pair("SLURM_ARRAY_JOB_ID", "1"), std::pair("SLURM_ARRAY_TASK_ID", "1"),
        std::pair("SLURM_RESTART_COUNT", "3"), std::pair("SLURM_STEP_ID", "0"),
        std::pair("SLURM_NTASKS_PER_NODE", "3"), std::pair("SLURM_LABELIO", "1"),
        std::pair("SLURM_MEM_PER_NODE", "100"), std::pair("SLURM_MEM_PER_CPU", "100"),
        std::pair("SLURM_EXPORT_ENV", "NONE")})
    ::setenv(name, value, 1);
  const std::string stranger =
      cluster_->submit({"--array=1", "--nodelist=n4", "--exclusive", "--output=/dev/null"}, sleeper());
  begin({"--nodes=1"});
  EXPECT_EQ(parts_of(dir(), "trainer").size(), 1U);
  cluster_->command({"scancel", "--signal=USR1", job_});
  wait_for_restart(1);
  EXPECT_EQ(cluster_->restarts(stranger + "_1"), 0U);
  for (const char* name : {"SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_RESTART_COUNT",
                           "SLURM_STEP_ID", "SLURM_NTASKS_PER_NODE", "SLURM_LABELIO", "SLURM_MEM_PER_NODE",
                           "SLURM_MEM_PER_CPU", "SLURM_EXPORT_ENV"})
    ::unsetenv(name);
  stop_and_compare();
}

// Like an orderly shutdown of one of the job's nodes: all processes on the node get SIGTERM.
TEST_F(Slurm, TasksOfOneNodeTerminated_RequeuedOnce) {
  begin({"--nodes=3"});
  const std::string head = attempts("slurm-begin")[0].value("node", "n1");
  const std::uint64_t before = reached_step(dir());
  for (const pid_t pid : cluster_->tasks_on(head == "n3" ? "n2" : "n3")) ::kill(pid, SIGTERM);
  wait_for_restart(1);
  EXPECT_EQ(attempts("slurm-end")[0]["cause"], "a node is shut down");
  EXPECT_GE(attempts("slurm-begin")[1]["step"], before);
  stop_and_compare();
  EXPECT_EQ(cluster_->restarts(job_), 1U);
}

// Like a shutdown of the node in good order: every process gets SIGTERM, and for Slurm the job is RUNNING.
TEST_F(Slurm, BatchHostIsShutDown_Requeued) {
  const fs::path bin = scratch_ / "bin";
  fs::create_directory(bin);
  std::ofstream(bin / "systemctl") << "#!/bin/sh\n[ \"$1\" = is-system-running ] && echo stopping\nexit 1\n";
  fs::permissions(bin / "systemctl", fs::perms::owner_all);
  begin({"--nodes=1"}, {}, str("[[ ${SLURM_RESTART_COUNT:-0} != 0 ]] || PATH=", bin.string(), ":$PATH"));
  const std::uint64_t before = reached_step(dir());
  for (const pid_t pid : parts_of(dir(), "supervisor")) ::kill(pid, SIGTERM);
  wait_for_restart(1);
  EXPECT_EQ(attempts("slurm-end")[0]["cause"], "a node is shut down");
  EXPECT_GE(attempts("slurm-begin")[1]["step"], before);
  stop_and_compare();
  EXPECT_EQ(cluster_->restarts(job_), 1U);
}

// ---- preemption with GraceTime ----

class SlurmGrace : public SlurmRun {
 protected:
  static constexpr std::chrono::seconds kGrace{15};  // of partition low in tools/slurm-cluster

  // `signal`: the first signal that the run gets, as the coordinator's log names it.
  void preempt_and_compare(const std::string& signal) {
    begin({"--nodes=2", "--partition=low", "--nodelist=n[1-2]"});
    cluster_->take("n[1-2]");
    wait_for_restart(1);
    const auto end = attempts("slurm-end").front();
    EXPECT_EQ(end["cause"], "preemption");
    EXPECT_EQ(end["requeued"], true);
    EXPECT_TRUE(printed("requeued (preemption): the next attempt goes on from step ")) << output();
    // By the coordinator's clock, between the signal and the saved state.
    std::istringstream log(read_text(run::Layout(dir()).log("coordinator")).value_or(""));
    const auto signalled = next_line(log, "stopping (");
    ASSERT_TRUE(signalled);
    EXPECT_NE(signalled->text.find(str("stopping (", signal, "):")), std::string::npos) << signalled->text;
    const auto saved = next_line(log, str("checkpoint of step ", end["step"].dump(), " is committed"));
    ASSERT_TRUE(saved);
    EXPECT_LT(saved->at - signalled->at, kGrace) << signalled->text << "\n" << saved->text;
    stop_and_compare();
    EXPECT_EQ(cluster_->restarts(job_), 1U);
  }

 private:
  struct LogLine {
    std::chrono::system_clock::time_point at;
    std::string text;
  };
  // The next line of a log with these words.
  static std::optional<LogLine> next_line(std::istream& log, const std::string& words) {
    for (std::string line; std::getline(log, line);) {
      if (line.find(words) == std::string::npos) continue;
      std::tm parts{};
      const char* const rest = ::strptime(line.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
      if (rest == nullptr) return std::nullopt;
      const auto ms = std::chrono::milliseconds(std::strtol(rest + 1, nullptr, 10));  // ".123"
      return LogLine{std::chrono::system_clock::from_time_t(::timegm(&parts)) + ms, line};
    }
    return std::nullopt;
  }
};
TEST_F(SlurmGrace, PreemptedWithGrace_SavedBeforeTheGraceIsOver) { preempt_and_compare("SIGTERM on a node"); }

class SlurmUserSignal : public SlurmGrace {
  std::string conf() const override { return "SlurmctldParameters=preempt_send_user_signal"; }
};
TEST_F(SlurmUserSignal, PreemptedWithGrace_SavedAtTheSignal) { preempt_and_compare("SIGUSR1"); }

}  // namespace
}  // namespace rekindle::process_test
