// A node of a job on which no trainer can start.
#include <gtest/gtest.h>

#include <csignal>

#include "../needs.hpp"
#include "cluster.hpp"

namespace rekindle::process_test {
namespace {

class SlurmBadNode : public SlurmRun {
 protected:
  // Starts the node's slurmd again, and with it all later tasks there: they have another host name, and see
  // an empty folder in place of this one.
  void empty_folder_on(const std::string& node, const fs::path& folder) const {
    for (const pid_t pid : cluster_->slurmd_on(node)) ::kill(pid, SIGKILL);
    ASSERT_TRUE(eventually([&] { return cluster_->slurmd_on(node).empty(); }));
    cluster_->start_slurmd(
        node, {"unshare", "--uts", "--mount", "sh", "-c",
               "hostname bad-node && mount -t tmpfs none '" + folder.string() + "' && exec \"$@\"", "sh"});
    ASSERT_TRUE(eventually([&] { return !cluster_->slurmd_on(node).empty(); }));
  }
};

TEST_F(SlurmBadNode, WithoutTheTrainersLibraries_LeftOutByNameAndTheRunGoesOnOnTheOther) {
  if (Program({"/usr/bin/unshare", "--uts", "--mount", "/bin/true"}).wait().exit_code != 0)
    REKINDLE_SKIP(Needs::kOwnMounts, "cannot make a mount namespace");
  begin({"--nodes=1", "--nodelist=n1"});  // the run keeps its programs and their libraries
  ASSERT_EQ(run({"stop", dir()}).exit_code, 0);
  wait_until_over();
  ASSERT_NO_FATAL_FAILURE(empty_folder_on("n2", dir() / "bin" / "lib"));
  begin({"--nodes=2", "--nodelist=n[1-2]"});
  wait_for_steps(5);
  EXPECT_EQ(attempts("slurm-begin").back()["nodes"], 2);
  EXPECT_TRUE(
      printed("host bad-node is excluded: trainers cannot start on this host, but they start on other "
              "hosts: node bad-node: rekindle-trainer needs "))
      << output();
  EXPECT_EQ(trainers_now(dir()), 1U);
  EXPECT_EQ(cluster_->restarts(job_), 0U);
  stop_and_compare();
}

}  // namespace
}  // namespace rekindle::process_test
