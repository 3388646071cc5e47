// Jobs of several nodes that lose the node of the batch script: another node saves the state and requeues the
// job.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

#include "../needs.hpp"
#include "base/process.hpp"
#include "cluster.hpp"
#include "container.hpp"
#include "run/layout.hpp"

namespace rekindle::process_test {
namespace {

class SlurmBatchHost : public SlurmRun {
 protected:
  // A node that an operator set DOWN stays down. (With 2, Slurm starts the next attempt on this node at once.
  // Its slurmd still has the old job, and Slurm holds the job as "launch failed requeued held".)
  std::string conf() const override { return "ReturnToService=1"; }
  std::string head() const { return attempts("slurm-begin").at(0).value("node", ""); }
  static void kill_all(const std::vector<pid_t>& pids) {
    for (const pid_t pid : pids) ::kill(pid, SIGKILL);
  }
  // Like a power loss: kills Slurm's daemons on the node, the batch script, coordinator, worker and trainer.
  void lose_batch_host() const {
    const auto daemons = cluster_->daemons_on(head()), tasks = cluster_->tasks_on(head());
    ASSERT_GE(daemons.size(), 2U);
    ASSERT_GE(tasks.size(), 3U);
    // First stops all of them, so that they die together. When the parent of stopped processes dies, the
    // kernel sends SIGHUP and SIGCONT to the processes of its session.
    for (const auto& pids : {daemons, tasks})
      for (const pid_t pid : pids) ::kill(pid, SIGSTOP);
    kill_all(tasks);
    kill_all(daemons);  // last, because the daemons are such parents, too
  }
  // The sruns of the batch script, and the processes that they forked.
  std::vector<pid_t> sruns() const {
    std::vector<pid_t> pids = cluster_->tasks_on(head());
    std::erase_if(pids,
                  [](pid_t pid) { return !executable_of(pid).filename().string().starts_with("srun"); });
    return pids;
  }
  // The next attempt must begin with the survivors' state.
  void expect_the_next_attempt_goes_on_from(std::uint64_t step,
                                            const std::string& cause = "the batch host was lost") {
    wait_for_restart(1);
    EXPECT_GE(attempts("slurm-begin").back()["step"], step);
    EXPECT_EQ(attempts("slurm-begin").back()["why"], "requeued after " + cause);
    ASSERT_FALSE(attempts("slurm-end").empty());
    EXPECT_EQ(attempts("slurm-end").back()["cause"], cause);
    EXPECT_EQ(attempts("slurm-successor").size(), 1U);
    stop_and_compare();
    EXPECT_EQ(cluster_->restarts(job_), 1U);
  }
};

TEST_F(SlurmBatchHost, Dies_SurvivorsSaveAndTheJobIsRequeuedOnce) {
  begin({"--nodes=3"});
  const std::uint64_t before = reached_step(dir());
  ASSERT_NO_FATAL_FAILURE(lose_batch_host());
  expect_the_next_attempt_goes_on_from(before);
}

// Slurm's commands are not in the containers, so what looks after the batch host is outside of them.
TEST_F(SlurmBatchHost, DiesWithWorkersInContainers_SurvivorsSaveAndTheJobIsRequeuedOnce) {
  if (const std::string why = Image::why_none(); !why.empty()) REKINDLE_SKIP(Image::needs(), why);
  const Image image(REKINDLE_SOURCE, scratch_ / "image");
  begin({"--nodes=3"}, {"--container", image.path()});
  EXPECT_EQ(image.starts("rekindle-control worker"), 3);
  const std::uint64_t before = reached_step(dir());
  ASSERT_NO_FATAL_FAILURE(lose_batch_host());
  expect_the_next_attempt_goes_on_from(before);
  EXPECT_GE(image.starts("rekindle-control worker"), 5);
}

// srun forks a shepherd, which ends the step on the other node when srun dies.
TEST_F(SlurmBatchHost, ItsSrunsDieFirst_SurvivorsSaveAndTheJobIsRequeuedOnce) {
  begin({"--nodes=3"});
  const auto daemons = cluster_->daemons_on(head()), tasks = cluster_->tasks_on(head());
  ASSERT_GE(daemons.size(), 2U);
  const std::uint64_t before = reached_step(dir());
  const auto all = sruns();
  ASSERT_GE(all.size(), 3U);
  for (const pid_t pid : all) {
    const auto parent = static_cast<pid_t>(stat_field(pid, 4));
    if (std::find(all.begin(), all.end(), parent) == all.end())
      ::kill(pid, SIGKILL);  // leave the shepherds alive
  }
  ASSERT_TRUE(eventually([&] { return sruns().empty(); }));
  kill_all(daemons);
  kill_all(tasks);
  expect_the_next_attempt_goes_on_from(before);
}

// Only the script's daemon reports the end of the script to Slurm. Slurm 22.05 notices that the batch step is
// missing when slurmd registers the next time, here after a minute. It then requeues the job with nothing
// saved. (In a task of an array, whose name is no number: the commands that look for the step take only
// those.)
TEST_F(SlurmBatchHost, ItsScriptDiesAfterTheScriptsDaemon_SurvivorsSaveAndTheJobIsRequeuedOnce) {
  begin({"--nodes=3", "--array=1"});
  const auto supervisors = parts_of(dir(), "supervisor");
  ASSERT_EQ(supervisors.size(), 1U);
  const std::uint64_t before = reached_step(dir());
  const auto tasks = cluster_->tasks_on(head());
  ::kill(static_cast<pid_t>(stat_field(supervisors[0], 4)), SIGKILL);
  kill_all(tasks);
  expect_the_next_attempt_goes_on_from(before, "the batch script was killed");
}

TEST_F(SlurmBatchHost, ItsScriptAloneDies_SurvivorsSaveAndTheJobIsRequeuedOnce) {
  begin({"--nodes=3"});
  const std::uint64_t before = reached_step(dir());
  kill_all(parts_of(dir(), "supervisor"));
  expect_the_next_attempt_goes_on_from(before, "the batch script was killed");
}

TEST_F(SlurmBatchHost, ItsScriptAloneDiesAndMayNotBeRequeued_SavedAndTheJobHasFailed) {
  begin({"--nodes=2"}, {"--on-limit", "exit"});
  const std::uint64_t before = reached_step(dir());
  kill_all(parts_of(dir(), "supervisor"));
  wait_until_over();
  EXPECT_EQ(cluster_->state(job_), "FAILED");
  EXPECT_EQ(cluster_->restarts(job_), 0U);
  ASSERT_FALSE(attempts("slurm-end").empty());
  EXPECT_EQ(attempts("slurm-end").back()["cause"], "the batch script was killed");
  EXPECT_GE(attempts("slurm-end").back()["step"], before);
  finish_and_compare();
}

// With its shepherd, the killed srun would have ended the step.
TEST_F(SlurmBatchHost, LosesOneSrunAlone_ItsWorkerIsReplaced) {
  begin({"--nodes=2"});
  const auto all = sruns();
  const auto other = std::find_if(all.begin(), all.end(), [&](pid_t pid) {
    return command_line(pid).find("--nodelist=" + head() + std::string(1, '\0')) == std::string::npos;
  });
  ASSERT_NE(other, all.end());
  const auto trainers = parts_of(dir(), "trainer");
  ASSERT_EQ(trainers.size(), 2U);
  ::kill(*other, SIGKILL);
  const auto replaced = [&] {
    const auto now = parts_of(dir(), "trainer");
    return now.size() == 2 && now != trainers && trainers_now(dir()) == 2;
  };
  ASSERT_TRUE(eventually(replaced));
  // A worker may live on without its srun, and report again, until Slurm ends it some seconds later.
  wait_for_steps(20);
  ASSERT_TRUE(eventually([&] { return parts_of(dir(), "worker").size() == 2 && replaced(); }));
  EXPECT_EQ(attempts("slurm-begin").size(), 1U);
  stop_and_compare();
  EXPECT_FALSE(printed("shepherd")) << output();
}

TEST_F(SlurmBatchHost, SetDownByHand_SurvivorsSaveAndTheJobIsRequeuedOnce) {
  begin({"--nodes=3"});
  const std::uint64_t before = reached_step(dir());
  cluster_->command({"scontrol", "update", "nodename=" + head(), "state=down", "reason=test"});
  expect_the_next_attempt_goes_on_from(before);
}

TEST_F(SlurmBatchHost, ItsSlurmdAloneIsGoneAndBack_SurvivorsSaveAndTheJobIsRequeuedOnce) {
  begin({"--nodes=3"});
  const std::string node = head();
  kill_all(cluster_->slurmd_on(node));
  ASSERT_TRUE(eventually([&] { return cluster_->nodes_of(job_).find(node) == std::string::npos; }));
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(3));  // no process has noticed the loss yet
  const std::uint64_t before = reached_step(dir());
  cluster_->start_slurmd(node);
  expect_the_next_attempt_goes_on_from(before);
}

// Like a full disk: status.json grows old, and the coordinator lives.
TEST_F(SlurmBatchHost, CannotWriteTheStatus_NobodyLooksForTheScript) {
  begin({"--nodes=2"});
  const FilePath status = run::Layout(dir()).status();
  const fs::path in_the_way = status.path();
  // A directory that is not empty cannot be replaced by a file.
  ASSERT_TRUE(eventually([&] {
    std::error_code ignored;
    fs::remove(in_the_way, ignored);
    return fs::create_directories(in_the_way / "x", ignored);
  }));
  // After 60 s the run counts as silent, and 30 s later a worker would look for the script. That must not
  // happen, and a worker that does nothing shows no event to wait for: the test has to be longer than that.
  ::sleep(110);
  const auto log = cluster_->command({"sh", "-c", str("cat '", (dir() / "logs").string(), "'/*")});
  EXPECT_EQ(log.find("checking whether"), std::string::npos) << log;
  EXPECT_EQ(attempts("slurm-successor").size(), 0U);
  fs::remove_all(in_the_way);
  stop_and_compare();
  EXPECT_EQ(cluster_->restarts(job_), 0U);
}

// The job that the survivors submit waits for the end of this job. So this job must not stay on its other
// nodes until its time limit.
TEST_F(SlurmBatchHost, DiesAndIsResubmitted_SavedAndFollowedByOneOtherJob) {
  begin({"--nodes=3"}, {"--on-limit", "resubmit"});
  const std::uint64_t before = reached_step(dir());
  const std::string first = job_;
  ASSERT_NO_FATAL_FAILURE(lose_batch_host());
  ASSERT_TRUE(eventually([&] { return attempts("slurm-begin").size() == 2; }, std::chrono::minutes(5)));
  const nlohmann::json next = attempts("slurm-begin").back();
  EXPECT_EQ(next["why"], "resubmitted after the batch host was lost");
  EXPECT_GE(next["step"], before);
  ASSERT_EQ(attempts("slurm-end").size(), 1U);
  EXPECT_EQ(attempts("slurm-end")[0]["cause"], "the batch host was lost");
  EXPECT_EQ(cluster_->state(first), "CANCELLED");
  EXPECT_EQ(cluster_->restarts(first), 0U);
  job_ = next["job"];
  EXPECT_NE(job_, first);
  wait_for_steps(3);
  stop_and_compare();
}

TEST_F(SlurmBatchHost, DiesAndMayNotBeRequeued_SavedAndTheJobIsEnded) {
  begin({"--nodes=2"}, {"--on-limit", "exit"});
  const std::uint64_t before = reached_step(dir());
  ASSERT_NO_FATAL_FAILURE(lose_batch_host());
  wait_until_over();
  EXPECT_EQ(cluster_->state(job_), "CANCELLED");
  EXPECT_EQ(cluster_->restarts(job_), 0U);
  ASSERT_FALSE(attempts("slurm-end").empty());
  EXPECT_GE(attempts("slurm-end").back()["step"], before);
  finish_and_compare();
}

}  // namespace
}  // namespace rekindle::process_test
