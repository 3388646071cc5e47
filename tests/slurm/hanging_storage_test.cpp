// A job whose run directory is on storage that hangs: every call waits for a server that does not answer, as
// on NFS mounted hard. Needs network_disk (tests/network_disk), which is this process's parent.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "../needs.hpp"
#include "cluster.hpp"

namespace rekindle::process_test {
namespace {

class SlurmHangingStorage : public SlurmRun {
 protected:
  void SetUp() override {
    const char* nodes = std::getenv("REKINDLE_TEST_NODES");
    if (nodes == nullptr) REKINDLE_SKIP(Needs::kSetup, "needs network_disk");
    run_dir_ = fs::path(nodes) / "run";
    SlurmRun::SetUp();
  }
  void TearDown() override {
    answer();
    SlurmRun::TearDown();
  }
  static void hang() { ::kill(::getppid(), SIGSTOP); }
  static void answer() { ::kill(::getppid(), SIGCONT); }
};

// In between, this process must not look at the run directory either.
TEST_F(SlurmHangingStorage, AtTheTimeLimit_RequeuedAndGoesOnFromTheLastCheckpoint) {
  job_ = cluster_->submit({"--nodes=1", "--time=1"}, script({"--checkpoint-every", "10"}));
  wait_for_step(20);
  hang();
  EXPECT_TRUE(eventually([&] { return cluster_->restarts(job_) == 1; }, std::chrono::minutes(3)));
  wait_until_printed("the state is not saved yet");
  answer();
  wait_for_restart(1);
  EXPECT_GE(attempts("slurm-begin").back()["step"], 10);
  stop_and_compare();
  EXPECT_EQ(cluster_->restarts(job_), 1U);
}

// As that of `rekindle submit`, which is in the run directory. There is time between the hang and the signal,
// in which the coordinator is killed because it is silent, and cannot be started again.
class SlurmHangingOutput : public SlurmHangingStorage {
 protected:
  void SetUp() override {
    SlurmHangingStorage::SetUp();
    output_ = run_dir_.parent_path() / "out";
  }
};

TEST_F(SlurmHangingOutput, AtTheTimeLimit_RequeuedAndGoesOnFromTheLastCheckpoint) {
  job_ = cluster_->submit({"--nodes=1", "--time=2"},
                          script({"--checkpoint-every", "10", "--log-interval", "1"}));
  wait_for_step(20);
  hang();
  EXPECT_TRUE(eventually([&] { return cluster_->restarts(job_) == 1; }, std::chrono::minutes(4)));
  answer();
  wait_for_restart(1);
  EXPECT_GE(attempts("slurm-begin").back()["step"], 10);
  stop_and_compare();
  EXPECT_EQ(cluster_->restarts(job_), 1U);
}

}  // namespace
}  // namespace rekindle::process_test
