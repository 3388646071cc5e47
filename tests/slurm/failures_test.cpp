// Jobs on real Slurm daemons with failures of the job, its nodes, data or run directory. The jobs go on if
// that is possible, and end if not.
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>

#include "base/process.hpp"
#include "base/text.hpp"
#include "cluster.hpp"

namespace rekindle::process_test {
namespace {

using Slurm = SlurmRun;

// The run directory was purged, or is not mounted on this node. The run must not silently begin at step 0.
class SlurmRunDirectoryGone : public SlurmRun {
 protected:
  // The commands of a later attempt's script before it execs rekindle.
  std::string move_away(bool leaves_a_directory = false) const {
    const std::string path = dir().string();
    return str("[[ ${SLURM_RESTART_COUNT:-0} == 0 ]] || { mv ", path, " ", path, ".away",
               leaves_a_directory ? "; mkdir " + path : "", "; }");
  }
  // `leaves`: an empty directory stays in its place.
  void expect_no_new_beginning(bool leaves) {
    begin({"--nodes=1"}, {"--requeue-within", "10s"}, move_away(leaves));
    cluster_->command({"scontrol", "requeue", job_});
    wait_until_printed("is empty or missing on node");
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

// Like a mount point whose file system is not mounted.
TEST_F(SlurmRunDirectoryGone, AnEmptyDirectoryInItsPlace_EndsWithoutBeginningAgain) {
  expect_no_new_beginning(true);
}

// The storage of a node that has just booted appears late.
TEST_F(SlurmRunDirectoryGone, ForMoreThanItsUsualDelay_GoesOn) {
  begin({"--nodes=1"}, {}, move_away());
  cluster_->command({"scontrol", "requeue", job_});
  wait_until_printed("waits until the storage shows the run directory");
  // Storage usually shows a name within 20 s. The job must not give up after that, and a job that goes on
  // waiting shows no event.
  ::sleep(25);
  EXPECT_FALSE(printed("is empty or missing on node"));
  fs::rename(str(dir().string(), ".away"), dir());
  wait_for_restart(1);
  stop_and_compare();
}

TEST_F(SlurmRunDirectoryGone, WithFromScratch_BeginsAgain) {
  const std::string away = dir().string() + ".away";
  begin({"--nodes=1"}, {"--from-scratch"}, move_away());
  cluster_->command({"scontrol", "requeue", job_});
  EXPECT_TRUE(eventually([&] { return fs::exists(away) && reached_step(dir()) >= 1; }));
  EXPECT_EQ(cluster_->restarts(job_), 1U);
  stop_and_compare();
}

// A successor job has restart count 0, but must also find that the run directory is missing.
TEST_F(SlurmRunDirectoryGone, ForTheSuccessor_EndsWithoutBeginningAgain) {
  begin({"--nodes=1"}, {"--on-limit", "resubmit", "--requeue-within", "30s"},
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

// Attempts that end by themselves and save no new step must not be requeued forever.
TEST_F(Slurm, FiveAttemptsThatEndByThemselves_GivenUp) {
  job_ = cluster_->submit({"--nodes=1"}, script({"--min-trainers", "2", "--gather-time", "20s"}));
  for (int pause = 0; pause < 3; ++pause) start_now();
  wait_until_over();
  EXPECT_EQ(cluster_->restarts(job_), 4U);
  ASSERT_NO_FATAL_FAILURE(expect_over(job_, "FAILED", 70));
  EXPECT_TRUE(printed("requeued (the attempt failed)"));
  EXPECT_TRUE(printed("5 attempts in a row saved nothing beyond step 0"));
  ASSERT_EQ(attempts("slurm-end").size(), 5U);
  EXPECT_EQ(attempts("slurm-end")[0]["cause"], "the attempt failed");
  EXPECT_EQ(attempts("slurm-begin")[2]["why"], "requeued after the attempt failed");
}

// The job's time is too short for a step.
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

// An error that the first attempt did not have is probably a temporary problem of the node.
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

// The options' file, like the data, may be on storage that a node does not have for a while.
TEST_F(Slurm, OptionsGoneForAWhile_GoesOnWhenTheyAreBack) {
  const fs::path file = scratch_ / "options.toml", away = scratch_ / "away.toml";
  std::ofstream(file) << "log-interval = 5\n";
  begin({"--nodes=1"}, {"--config", file});
  fs::rename(file, away);
  cluster_->command({"scontrol", "requeue", job_});
  ASSERT_TRUE(eventually([&] { return cluster_->restarts(job_) == 2; })) << output();
  fs::rename(away, file);
  ASSERT_TRUE(eventually([&] { return attempts("slurm-begin").size() == 2; })) << output();
  EXPECT_EQ(attempts("slurm-futile").size(), 1U);
  wait_for_steps(5);
  stop_and_compare();
}

// The stop was for the attempt that obeyed it, not for those that a person starts later.
TEST_F(Slurm, StoppedAndRequeuedByHandWithoutItsOptions_GoesOnWhenTheyAreBack) {
  const fs::path file = scratch_ / "options.toml", away = scratch_ / "away.toml";
  std::ofstream(file) << "log-interval = 5\n";
  begin({"--nodes=1"}, {"--config", file});
  ASSERT_EQ(run({"stop", dir()}).exit_code, 0);
  wait_until_over();
  fs::rename(file, away);
  cluster_->command({"scontrol", "requeue", job_});
  ASSERT_TRUE(eventually([&] { return cluster_->restarts(job_) == 2; })) << output();
  fs::rename(away, file);
  ASSERT_TRUE(eventually([&] { return attempts("slurm-begin").size() == 2; })) << output();
  wait_for_steps(5);
  stop_and_compare();
}

// The next attempt is another job, and nothing of the old job may block it. (With two nodes, the other node
// would requeue the job: SlurmBatchHost.)
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

// ---- an attempt that has not noticed its end ----

// The node's daemons die, but its processes stay alive and train. For Slurm, the node is dead, so Slurm
// starts the job on another node.
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
