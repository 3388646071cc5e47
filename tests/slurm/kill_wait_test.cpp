// A step that takes longer than Slurm gives the processes of a job to end (KillWait).
#include <gtest/gtest.h>

#include "../read_lines.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "cluster.hpp"
#include "run/layout.hpp"

namespace rekindle::process_test {
namespace {

constexpr double kKillWaitMs = 6000;

class SlurmKillWait : public SlurmRun {
 protected:
  std::string conf() const override { return str("KillWait=", kKillWaitMs / 1000); }
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(SlurmRun::SetUp());
    if (IsSkipped()) return;
    ASSERT_EQ(run({"make-data", "mnist", scratch_ / "data", "--samples", "20000"}).exit_code, 0);
    choose_batch();
  }
  static double step_ms(const fs::path& run_dir) {
    return run::read_lines(run::Layout(run_dir).metrics()).at(0).value("step_ms", 0.0);
  }
  Arguments long_steps() const {
    return {"--data",          scratch_ / "data", "--batch-size", str(batch_),
            "--micro-batches", str(kParts),       "--threads",    "1"};
  }
  // A step takes three times as long as KillWait, on any machine.
  void choose_batch() {
    batch_ = 8 * kParts;
    ASSERT_EQ(run(mnist_run(scratch_ / "probe", 1, 1) + long_steps()).exit_code, 0);
    const double more = 3 * kKillWaitMs / step_ms(scratch_ / "probe");
    batch_ *= static_cast<int>(more) + 1;
  }

  static constexpr int kParts = 64;
  int batch_ = 0;
};

TEST_F(SlurmKillWait, StepLongerThanIt_GivenUpAndTheStateBeforeItIsSaved) {
  job_ = cluster_->submit({"--nodes=1"}, script(long_steps()));
  wait_for_step(1);
  cluster_->command({"scancel", job_});
  wait_until_over();
  EXPECT_GT(step_ms(dir()), kKillWaitMs) << "the test has not had a long step";
  EXPECT_TRUE(printed("takes too long: the state of step 1 is written instead")) << output();
  EXPECT_EQ(cluster_->state(job_), "CANCELLED");
  EXPECT_EQ(cluster_->restarts(job_), 0U);
  ASSERT_EQ(attempts("slurm-end").size(), 1U);
  EXPECT_EQ(attempts("slurm-end")[0]["cause"], "cancelled");
  EXPECT_EQ(attempts("slurm-end")[0]["step"], 1);
  const Outcome finished = run(mnist_run(dir(), 2, 2) + long_steps());
  ASSERT_EQ(finished.exit_code, 0) << finished.out << finished.err;
  EXPECT_NE(read_text(run::Layout(dir()).log("coordinator")).value_or("").find("resumes from step 1"),
            std::string::npos);
  ASSERT_EQ(run(mnist_run(scratch_ / "quiet", 2, 2) + long_steps()).exit_code, 0);
  EXPECT_EQ(digest_of(dir()), digest_of(scratch_ / "quiet"));
}

}  // namespace
}  // namespace rekindle::process_test
