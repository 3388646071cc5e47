// A job whose run directory is on storage that hangs: every call waits for a server that does not answer, as
// on NFS mounted hard. Needs network_disk (tests/network_disk), which is this process's parent.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>

#include "../needs.hpp"
#include "base/programs.hpp"
#include "base/text.hpp"
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
  // The storage answers again: the next attempt goes on from the last checkpoint, once.
  void expect_goes_on() {
    answer();
    wait_for_restart(1);
    EXPECT_GE(attempts("slurm-begin").back()["step"], 10);
    stop_and_compare();
    EXPECT_EQ(cluster_->restarts(job_), 1U);
  }
};

// In between, this process must not look at the run directory either.
TEST_F(SlurmHangingStorage, AtTheTimeLimit_RequeuedAndGoesOnFromTheLastCheckpoint) {
  job_ = cluster_->submit({"--nodes=1", "--time=1"}, script({"--checkpoint-every", "10"}));
  wait_for_step(20);
  hang();
  EXPECT_TRUE(eventually([&] { return cluster_->restarts(job_) == 1; }, std::chrono::minutes(3)));
  wait_until_printed("the state is not saved yet");
  expect_goes_on();
}

// The job's output is on the storage that hangs, as that of `rekindle submit`. Between the hang and the
// signal there is time, in which the coordinator is killed because it is silent, and cannot be started again.
class SlurmHangingOutput : public SlurmHangingStorage {
 protected:
  void SetUp() override {
    SlurmHangingStorage::SetUp();
    output_ = run_dir_.parent_path() / "out";
    fs::create_directory(scratch_ / "bin");
    const fs::path scontrol = scratch_ / "bin" / "scontrol";
    std::ofstream(scontrol) << "#!/bin/sh\n"
                            << program_on_path("scontrol").string() << " \"$@\"\ncode=$?\n"
                            << "[ \"$1 $code\" != \"requeue 0\" ] || echo yes >>" << accepted().string()
                            << "\nexit $code\n";
    fs::permissions(scontrol, fs::perms::owner_all);
  }
  fs::path accepted() const { return scratch_ / "accepted"; }
};

// The processes that wait for the storage cannot be killed, so Slurm puts the job back into the queue when it
// answers.
TEST_F(SlurmHangingOutput, AtTheTimeLimit_AsksForARequeueAndGoesOnFromTheLastCheckpoint) {
  const std::string path = str("export PATH=", (scratch_ / "bin").string(), ":$PATH");
  job_ = cluster_->submit({"--nodes=1", "--time=2"},
                          script({"--checkpoint-every", "10", "--log-interval", "1"}, path));
  wait_for_step(20);
  hang();
  EXPECT_TRUE(eventually([&] { return fs::exists(accepted()); }, std::chrono::minutes(4)));
  expect_goes_on();
}

}  // namespace
}  // namespace rekindle::process_test
