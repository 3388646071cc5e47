// The scripts for users: examples/slurm, and the script of rekindle submit.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/text.hpp"
#include "cluster.hpp"

namespace rekindle::process_test {
namespace {

using Slurm = SlurmRun;

class SlurmExamples : public SlurmRun {
 protected:
  void begin_example(const std::string& name, const Arguments& options, const Arguments& more = {}) {
    ::setenv("RUN_DIR", dir().c_str(), 1);
    ::setenv("DATA", mnist_data().c_str(), 1);
    ::setenv("REKINDLE", rekindle().c_str(), 1);
    const Arguments all = Arguments{"--output=" + (scratch_ / "out").string()} + options;
    job_ = cluster_->submit(all, REKINDLE_SOURCE "/examples/slurm/" + name,
                            Arguments{"--model", "mnist-cnn", "--batch-size", "16", "--micro-batches", "8",
                                      "--steps", "1000000"} +
                                more);
    if (name == "seeds.sh") return;  // each run has its own directory
    wait_for_step(5);
    EXPECT_FALSE(printed("warning")) << output();
  }
};

TEST_F(SlurmExamples, TimeLimitAndFillers) {
  begin_example("time-limit.sh", {"--time=2", "--nodes=1"});
  const std::string filler = cluster_->submit({"--partition=low-now", "--time=10", "--output=/dev/null"},
                                              REKINDLE_SOURCE "/examples/slurm/filler.sh");
  wait_for_restart(1);
  ASSERT_TRUE(eventually([&] { return parts_of(dir(), "trainer").size() == 2; }));
  stop_and_compare();
}

TEST_F(SlurmExamples, Preemptible) {
  begin_example("preemptible.sh", {"--partition=low-now"});
  cluster_->take("n1");
  wait_for_restart(1);
  stop_and_compare();
}

TEST_F(SlurmExamples, Seeds) {
  begin_example("seeds.sh", {"--output=" + (scratch_ / "out-%a").string()}, {"--steps", "40"});
  for (const char* seed : {"1", "2", "3", "4"}) {
    ASSERT_TRUE(eventually([&] { return reached_step(dir() / str("seed-", seed)) >= 40; })) << seed;
  }
  ASSERT_TRUE(eventually([&] { return processes_with(dir()).empty(); }));
  EXPECT_NE(digest_of(dir() / "seed-1"), digest_of(dir() / "seed-2"));
  ASSERT_EQ(run(mnist_run(scratch_ / "quiet", 1, 40) + Arguments{"--seed", "3"}).exit_code, 0);
  EXPECT_EQ(digest_of(dir() / "seed-3"), digest_of(scratch_ / "quiet"));
}

// As many trainers as tasks, and each worker sees all GPUs of its node.
TEST_F(SlurmExamples, TaskPerGpu) {
  begin_example("task-per-gpu.sh", {});
  EXPECT_EQ(parts_of(dir(), "trainer").size(), 4U);
  for (const pid_t pid : parts_of(dir(), "trainer")) {
    std::ifstream environment(str("/proc/", pid, "/environ"));
    for (std::string entry; std::getline(environment, entry, '\0');) {
      if (entry.starts_with("SLURM_GPUS_ON_NODE")) {
        EXPECT_EQ(entry, "SLURM_GPUS_ON_NODE=2");
      }
    }
  }
  stop_and_compare();
}

// Each worker asks for the GPUs of its node: Slurm would have to give it those of the whole job.
TEST_F(Slurm, GpusForTheWholeJob_EachWorkerHasThoseOfItsNode) {
  begin({"--nodes=2", "--gpus=4"});
  EXPECT_EQ(parts_of(dir(), "trainer").size(), 2U);
  for (const pid_t pid : parts_of(dir(), "trainer")) {
    std::string entry;
    std::ifstream environment(str("/proc/", pid, "/environ"));
    while (std::getline(environment, entry, '\0') && !entry.starts_with("SLURM_GPUS_ON_NODE=")) continue;
    EXPECT_EQ(entry, "SLURM_GPUS_ON_NODE=2");
  }
  stop_and_compare();
}

// ---- rekindle submit ----

TEST_F(Slurm, Submitted_TheScriptIsKeptAndRunsAgain) {
  const Arguments arguments = mnist_job("submit", dir());
  const Arguments options{"--",
                          "--nodes",
                          "2",
                          "--exclusive",
                          "--ntasks-per-node=1",
                          "--time=10",
                          "--output=" + (scratch_ / "new/out").string()};
  const Outcome printed = run(arguments + Arguments{"--print"} + options);
  EXPECT_EQ(printed.exit_code, 0) << printed.err;
  EXPECT_NE(printed.out.find("#SBATCH --signal=B:USR1@30\n"), std::string::npos) << printed.out;
  EXPECT_EQ(cluster_->command({"squeue", "--noheader"}), "");
  const Outcome submitted = run(arguments + options);
  ASSERT_EQ(submitted.exit_code, 0) << submitted.err;
  ASSERT_TRUE(submitted.out.starts_with("job ")) << submitted.out;
  job_ = submitted.out.substr(4, submitted.out.find(':') - 4);
  wait_for_step(5);
  EXPECT_EQ(parts_of(dir(), "trainer").size(), 2U);
  EXPECT_EQ(run({"stop", dir()}).exit_code, 0);
  wait_until_over();
  const std::uint64_t before = reached_step(dir());
  job_ = cluster_->submit({}, dir() / "job.sh");
  wait_for_step(before + 5);
  stop_and_compare();
}

TEST_F(Slurm, SubmittedWithFaults_EachHasItsLine) {
  const Arguments arguments = mnist_job("submit", dir(), 100);
  const Outcome warned = run(arguments + Arguments{"--", "--no-requeue", "--signal=USR1@10", "--hold"});
  EXPECT_EQ(warned.exit_code, 0) << warned.err;
  for (const char* words : {"--no-requeue", "not to the batch script"})
    EXPECT_NE(warned.out.find(words), std::string::npos) << warned.out;
  const Outcome refused = run(arguments + Arguments{"--", "--partition=nosuch"});
  EXPECT_EQ(refused.exit_code, 78);
  EXPECT_NE(refused.err.find("sbatch refuses the job"), std::string::npos) << refused.err;
}

}  // namespace
}  // namespace rekindle::process_test
