// Jobs on real Slurm daemons: whatever ends an attempt, the next one goes on, and the bits are those of a
// quiet run.
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <random>

#include "../needs.hpp"
#include "../small_disk.hpp"
#include "base/files.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "cluster.hpp"
#include "run/layout.hpp"
#include "run/records.hpp"

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

// One requeue for each attempt, and each goes on exactly where the one before ended.
TEST_F(Slurm, ThreeTimeLimits_OneRequeueEachAndSameBits) {
  // Slurm looks every 30 s and signals that much too early: at 30 s before a limit of a minute, perhaps at
  // once.
  job_ = cluster_->submit({"--nodes=1", "--time=1"}, script({}, "", "--signal=B:USR1@10"));
  wait_for_step(5);
  wait_for_restart(3);
  stop_and_compare();
  EXPECT_TRUE(printed("requeued (time limit): the next attempt goes on from step "));
  EXPECT_FALSE(printed("run the same command again")) << "Slurm does that: " << output();
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
  EXPECT_TRUE(attempts("slurm-end").front()["requeued"].is_null());  // Slurm had done it
  stop_and_compare();
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

// Purged, or not mounted on this node: what looks like a new run must not begin at step 0 in silence.
class SlurmRunDirectoryGone : public SlurmRun {
 protected:
  // What a later attempt's script does before it execs rekindle.
  std::string move_away(bool leaves_a_directory = false) const {
    const std::string path = dir().string();
    return str("[[ ${SLURM_RESTART_COUNT:-0} == 0 ]] || { mv ", path, " ", path, ".away",
               leaves_a_directory ? "; mkdir " + path : "", "; }");
  }
  // `leaves`: an empty directory stays in its place.
  void expect_no_new_beginning(bool leaves) {
    begin({"--nodes=1"}, {}, move_away(leaves));
    cluster_->command({"scontrol", "requeue", job_});
    wait_until_printed("is empty or not there on node");
    ASSERT_NO_FATAL_FAILURE(expect_over(job_, "FAILED", 78));
    EXPECT_EQ(cluster_->restarts(job_), 1U);
    EXPECT_TRUE(printed("add --from-scratch")) << output();
    EXPECT_EQ(fs::exists(dir()), leaves);
    EXPECT_TRUE(!leaves || fs::is_empty(dir())) << "nothing was begun there";
    fs::remove(dir());
    fs::rename(str(dir().string(), ".away"), dir());
    finish_and_compare();
  }
};

TEST_F(SlurmRunDirectoryGone, BetweenTwoAttempts_EndsWithoutBeginningAgain) {
  expect_no_new_beginning(false);
}

// As a mount point whose file system is not mounted.
TEST_F(SlurmRunDirectoryGone, AnEmptyDirectoryInItsPlace_EndsWithoutBeginningAgain) {
  expect_no_new_beginning(true);
}

TEST_F(SlurmRunDirectoryGone, WithFromScratch_BeginsAgain) {
  const std::string away = dir().string() + ".away";
  begin({"--nodes=1"}, {"--from-scratch"}, move_away());
  cluster_->command({"scontrol", "requeue", job_});
  EXPECT_TRUE(eventually([&] { return fs::exists(away) && reached_step(dir()) >= 1; }));
  EXPECT_EQ(cluster_->restarts(job_), 1U);
  stop_and_compare();
}

// A job that follows another one has restart count 0, and must know all the same.
TEST_F(SlurmRunDirectoryGone, ForTheSuccessor_EndsWithoutBeginningAgain) {
  begin({"--nodes=1"}, {"--on-limit", "resubmit"},
        str("[[ -z $REKINDLE_FOLLOWS ]] || mv ", dir().string(), " ", dir().string(), ".away"));
  cluster_->command({"scancel", "--signal=USR1", "--batch", job_});
  wait_until_printed("this job goes on with the run of job " + job_ + ", but its run directory");
  const std::string before = "resubmitted as job ";
  const std::size_t at = output().find(before);
  ASSERT_NE(at, std::string::npos) << output();
  const std::string successor = str(std::stoull(output().substr(at + before.size())));
  ASSERT_NO_FATAL_FAILURE(expect_over(job_, "FAILED", 75));
  ASSERT_NO_FATAL_FAILURE(expect_over(successor, "FAILED", 78));
  EXPECT_FALSE(fs::exists(dir())) << "nothing was begun there";
  EXPECT_TRUE(eventually([&] { return processes_with(dir()).empty(); }));
}

// sbatch --nodes=2-4: another number in each attempt.
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
  EXPECT_TRUE(printed("it is not requeued"));
  finish_and_compare();
}

// To the batch script, twice; and to the tasks alone.
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

TEST_F(Slurm, NodeThenCoordinatorThenWorkerKilled_SameAttemptGoesOn) {
  begin({"--nodes=3"});
  const std::string head = attempts("slurm-begin")[0].value("node", "n1");
  const std::string lost = head == "n3" ? "n2" : "n3";
  const auto daemons = cluster_->daemons_on(lost), tasks = cluster_->tasks_on(lost);
  ASSERT_GE(daemons.size(), 2U);
  ASSERT_FALSE(tasks.empty());
  for (const auto& pids : {daemons, tasks}) {
    for (const pid_t pid : pids) ::kill(pid, SIGKILL);
  }
  wait_for_steps(20);
  for (const pid_t pid : parts_of(dir(), "coordinator")) ::kill(pid, SIGKILL);
  wait_for_steps(20);
  const auto trainers = parts_of(dir(), "trainer");
  EXPECT_EQ(trainers.size(), 2U);
  const auto workers = parts_of(dir(), "worker");
  ASSERT_FALSE(workers.empty());
  for (const pid_t pid : workers) {
    if (command_line(pid).find("srun") == std::string::npos) {
      ::kill(pid, SIGKILL);
      break;
    }
  }
  const auto others = [&] {
    const auto now = parts_of(dir(), "trainer");
    return now.size() == 2 && now != trainers;
  };
  ASSERT_TRUE(eventually(others));
  wait_for_steps(20);
  EXPECT_EQ(cluster_->restarts(job_), 0U);
  EXPECT_EQ(attempts("slurm-begin").size(), 1U);
  stop_and_compare();
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
  EXPECT_EQ(log->find("is lost"), std::string::npos) << *log;
  stop_and_compare();
}

// SIGTERM is the first that it hears of it.
TEST_F(Slurm, TimeLimitWithoutSignal_SavedWithinKillWaitAndRequeued) {
  job_ = cluster_->submit({"--nodes=1", "--time=1"}, script({}, "", "--signal=B:CONT@1"));
  wait_for_step(5);
  EXPECT_TRUE(printed("CONT is not the signal that asks for a requeue"));
  wait_for_restart(1);
  EXPECT_EQ(attempts("slurm-end").front()["cause"], "time limit");
  EXPECT_EQ(attempts("slurm-begin").back()["step"], attempts("slurm-end").front()["step"]);
  stop_and_compare();
}

// While it starts, forms, evaluates (an epoch has 6 steps) and writes (after each step).
TEST_F(Slurm, SignalledAtRandomMoments_RequeuedOnceEach) {
  std::mt19937 random(std::random_device{}());
  begin({"--nodes=2"}, {"--checkpoint-every", "1"});
  for (std::uint64_t i = 1; i <= 5; ++i) {
    const int ms = std::uniform_int_distribution(0, 2500)(random);
    ::usleep(1000U * static_cast<unsigned>(ms));
    cluster_->command({"scancel", "--signal=USR1", "--batch", job_});
    ASSERT_TRUE(eventually([&] { return cluster_->restarts(job_) == i; })) << i << " after " << ms << " ms";
    ASSERT_TRUE(eventually([&] { return cluster_->state(job_) == "RUNNING"; }));
    if (i % 2 == 0) wait_for_steps(2);
  }
  wait_for_steps(5);
  stop_and_compare();
  EXPECT_EQ(cluster_->restarts(job_), 5U);
}

// While it looks at the data and copies its programs, which takes a second: heard when there is somebody to
// hear it. In the first attempt, and in another.
TEST_F(Slurm, SignalledInTheFirstSecond_NotLost) {
  job_ = cluster_->submit({"--nodes=1"}, script());
  for (std::uint64_t i = 1; i <= 2; ++i) {
    ASSERT_TRUE(eventually([&] { return !parts_of(dir(), "supervisor").empty(); }));
    ASSERT_TRUE(eventually([&] {  // it is a program by then that has got as far as its first lines
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

// A person's word: Slurm's own signal before a time limit does not undo it.
// (In a run directory that is reached by a link, as home directories often are.)
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

// Everything that another job's environment says is handed on by sbatch.
TEST_F(Slurm, SubmittedFromAnotherJob_RequeuesItself) {
  for (const auto& [name, value] :
       {std::pair("SLURM_ARRAY_JOB_ID", "1"), std::pair("SLURM_ARRAY_TASK_ID", "1"),
        std::pair("SLURM_RESTART_COUNT", "3"), std::pair("SLURM_STEP_ID", "0"),
        std::pair("SLURM_NTASKS_PER_NODE", "3"), std::pair("SLURM_LABELIO", "1")})
    ::setenv(name, value, 1);
  const std::string stranger =
      cluster_->submit({"--array=1", "--nodelist=n4", "--exclusive", "--output=/dev/null"}, sleeper());
  begin({"--nodes=1"});
  EXPECT_EQ(parts_of(dir(), "trainer").size(), 1U);
  cluster_->command({"scancel", "--signal=USR1", job_});
  wait_for_restart(1);
  EXPECT_EQ(cluster_->restarts(stranger + "_1"), 0U);
  for (const char* name : {"SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_RESTART_COUNT",
                           "SLURM_STEP_ID", "SLURM_NTASKS_PER_NODE", "SLURM_LABELIO"})
    ::unsetenv(name);
  stop_and_compare();
}

// The run is complete, or about to be: no attempt too many, and none too few.
TEST_F(Slurm, SignalledAfterTheLastStep_EndsComplete) {
  begin({"--nodes=1"}, {"--steps", "60"});
  wait_for_step(60);
  cluster_->command({"scancel", "--signal=USR1", "--batch", job_});
  wait_until_over();
  EXPECT_EQ(cluster_->state(job_), "COMPLETED");
  EXPECT_LE(cluster_->restarts(job_), 1U);
  ASSERT_EQ(run(mnist_run(scratch_ / "quiet", 2, 60)).exit_code, 0);
  EXPECT_EQ(digest_of(dir()), digest_of(scratch_ / "quiet"));
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

// Nobody asked it to end, and it saves nothing new: that must not go on all night.
TEST_F(Slurm, ThreeAttemptsThatEndByThemselves_GivenUp) {
  job_ = cluster_->submit({"--nodes=1"}, script({"--min-trainers", "2", "--gather-time", "20s"}));
  wait_until_over();
  EXPECT_EQ(cluster_->restarts(job_), 2U);
  EXPECT_EQ(cluster_->state(job_), "FAILED");
  EXPECT_TRUE(printed("3 attempts in a row saved nothing beyond step 0"));
  ASSERT_EQ(attempts("slurm-end").size(), 3U);
  EXPECT_EQ(attempts("slurm-end")[0]["cause"], "the attempt failed");
  EXPECT_EQ(attempts("slurm-begin")[2]["why"], "requeued after the attempt failed");
}

// No step fits into the time that the job has.
TEST_F(Slurm, ThreeTimeLimitsWithoutAStep_GivenUp) {
  job_ = cluster_->submit({"--nodes=1", "--time=10"}, script({"--min-trainers", "2"}));
  for (std::size_t attempt = 1; attempt <= 3; ++attempt) {
    ASSERT_TRUE(eventually([&] { return attempts("slurm-begin").size() == attempt; }));
    cluster_->command({"scancel", "--signal=USR1", "--batch", job_});
    ASSERT_TRUE(eventually([&] { return attempts("slurm-end").size() == attempt; })) << output();
    EXPECT_EQ(attempts("slurm-end").back()["cause"], "time limit");
  }
  wait_until_over();
  EXPECT_EQ(cluster_->restarts(job_), 2U);
  EXPECT_TRUE(printed("3 attempts in a row saved nothing beyond step 0"));
}

// As when one of its nodes is shut down in good order: all that runs there is asked to end.
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

// What worked in the first attempt is the node's fault in the next, and may be over soon.
TEST_F(Slurm, DataGoneForAWhile_GoesOnWhenItIsBack) {
  const fs::path link = scratch_ / "data";
  fs::create_directory_symlink(mnist_data(), link);
  begin({"--nodes=1"}, {"--data", link});
  fs::remove(link);
  cluster_->command({"scontrol", "requeue", job_});
  ASSERT_TRUE(eventually([&] { return cluster_->restarts(job_) == 2; })) << output();
  fs::create_directory_symlink(mnist_data(), link);
  ASSERT_TRUE(eventually([&] { return attempts("slurm-begin").size() == 2; }));
  EXPECT_EQ(attempts("slurm-end")[1]["cause"], "the attempt failed");
  wait_for_steps(5);
  stop_and_compare();
}

// Slurm ends the attempt before the run has heard of the stop: the next one must not train on.
TEST_F(Slurm, StoppedAndRequeuedAtOnce_StaysStopped) {
  begin({"--nodes=1"});
  for (const pid_t pid : parts_of(dir(), "coordinator")) ::kill(pid, SIGSTOP);
  EXPECT_EQ(run({"stop", dir()}).exit_code, 0);
  cluster_->command({"scontrol", "requeue", job_});
  ASSERT_TRUE(eventually([&] { return cluster_->restarts(job_) == 1; }));
  wait_until_over();
  EXPECT_EQ(cluster_->restarts(job_), 1U);
  EXPECT_TRUE(printed("rekindle stop was asked of the attempt before"));
  EXPECT_EQ(attempts("slurm-end").back()["cause"], "rekindle stop");
  job_ = cluster_->submit({}, script());
  wait_for_steps(5);
  stop_and_compare();
}

// The next attempt is another job: nothing of the old one may be in its way. (Of two nodes, the other one
// would bring the job back: SlurmBatchHost.)
TEST_F(Slurm, BatchScriptKilled_TheNextJobGoesOnFromTheLastCommit) {
  begin({"--nodes=1"}, {"--checkpoint-every", "10"});
  wait_for_steps(20);
  for (const pid_t pid : parts_of(dir(), "supervisor")) ::kill(pid, SIGKILL);
  wait_until_over();
  const std::string first = job_;
  const std::uint64_t before = reached_step(dir());
  job_ = cluster_->submit({"--nodes=2"}, script({"--checkpoint-every", "10"}));
  wait_for_step(before + 20);
  EXPECT_GE(attempts("slurm-begin").back()["step"].get<std::uint64_t>() + 20, before);
  stop_and_compare();
}

// ---- preemption that gives time ----

class SlurmGrace : public SlurmRun {
 protected:
  void preempt_and_compare() {
    begin({"--nodes=2", "--partition=low", "--nodelist=n[1-2]"});
    cluster_->take("n[1-2]");
    wait_for_restart(1);
    EXPECT_EQ(attempts("slurm-end").front()["cause"], "preemption");
    EXPECT_TRUE(printed("requeued (preemption): the next attempt goes on from step ")) << output();
    stop_and_compare();
    EXPECT_EQ(cluster_->restarts(job_), 1U);
  }
};
TEST_F(SlurmGrace, PreemptedWithGrace_SavedBeforeTheGraceIsOver) { preempt_and_compare(); }

class SlurmUserSignal : public SlurmGrace {
  std::string conf() const override { return "SlurmctldParameters=preempt_send_user_signal"; }
};
TEST_F(SlurmUserSignal, PreemptedWithGrace_SavedAtTheSignal) { preempt_and_compare(); }

// ---- an attempt that does not know that it is over ----

// The node's daemons die, its processes live on and train: Slurm takes the node for dead and starts the job
// elsewhere.
TEST_F(Slurm, OldAttemptCutOffButAlive_DoesNoHarm) {
  begin({"--nodes=1"}, {"--checkpoint-every", "10"});
  const auto old = parts_of(dir(), "supervisor");
  ASSERT_EQ(old.size(), 1U);
  const auto batch = static_cast<pid_t>(stat_field(old[0], 4));
  for (const pid_t pid : cluster_->daemons_on(attempts("slurm-begin")[0].value("node", ""))) {
    // The step's daemon stays: without it the worker would leave.
    if (pid == batch || command_line(pid).starts_with("slurmd")) ::kill(pid, SIGKILL);
  }
  wait_for_steps(20);
  ASSERT_EQ(::kill(old[0], 0), 0);
  wait_for_restart(1);
  EXPECT_TRUE(eventually([&] { return ::kill(old[0], 0) != 0; }));
  wait_for_steps(20);
  EXPECT_EQ(cluster_->restarts(job_), 1U);
  EXPECT_EQ(attempts("slurm-begin")[1]["why"],
            "requeued by Slurm: the attempt before was killed, or its node failed");
  stop_and_compare();
}

}  // namespace
}  // namespace rekindle::process_test
