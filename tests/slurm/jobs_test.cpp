// The jobs in examples/, small, on real Slurm daemons: requeued once, and the bits equal those of an
// undisturbed run.
#include <gtest/gtest.h>

#include <cstdlib>
#include <regex>
#include <string>

#include "base/text.hpp"
#include "cluster.hpp"

namespace rekindle::process_test {
namespace {

enum class By { kSlurm, kHand, kSubmit };  // `rekindle slurm` in the script, by-hand.sh, `rekindle submit`

struct Job {
  const char* name;
  const char* script;  // in examples/
  const char* config;  // beside the script; "": none
  const char* dataset;
  // Options that make it small. No schedule with a length: that is the length of the first start.
  Arguments small;
  Arguments sbatch;   // options that the cluster of the test needs
  unsigned trainers;  // in the job
  By by = By::kSlurm;
  Arguments launch = {};  // options of the job alone: a run elsewhere starts its trainers in another way
};

class SlurmJobs : public SlurmRun, public ::testing::WithParamInterface<Job> {
 protected:
  static fs::path folder() {
    return (fs::path(REKINDLE_SOURCE) / "examples" / GetParam().script).parent_path();
  }
  fs::path data() const {
    fs::path made = scratch_ / "data";
    if (!fs::exists(made)) {
      const Outcome outcome = run({"make-data", GetParam().dataset, made, "--samples", "256"});
      EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    }
    return made;
  }
  Arguments options() const {
    return GetParam().small + Arguments{"--checkpoint-interval", "5s", "--gather-time", "60s"};
  }
  Outcome train(const fs::path& where, int steps) const override {
    Arguments all{"local", "--run-dir", where, "--data", data(), "--steps", str(steps)};
    if (*GetParam().config != '\0') all = all + Arguments{"--config", folder() / GetParam().config};
    // The third way to launch gpt: one command starts several trainers. The run goes on so outside of Slurm.
    if (std::string(GetParam().config) == "gpt.toml" && where == dir())
      all = all + Arguments{"--trainers-per-worker", "2"};
    return run(all + options());
  }
  void submit() {
    const std::string output = "--output=" + (scratch_ / "out").string();
    const Arguments without_end = options() + GetParam().launch + Arguments{"--steps", "1000000"};
    if (GetParam().by != By::kSubmit) {
      const Arguments sbatch{"--chdir=" + folder().string(), output};
      job_ = cluster_->submit(sbatch + GetParam().sbatch,
                              fs::path(REKINDLE_SOURCE) / "examples" / GetParam().script, without_end);
      return;
    }
    const Outcome submitted = run(
        Arguments{"submit", "--run-dir", dir(), "--data", data(), "--config", folder() / GetParam().config} +
        without_end + Arguments{"--", output} + GetParam().sbatch);
    std::smatch id;
    ASSERT_TRUE(std::regex_search(submitted.out, id, std::regex("job ([0-9]+): ")))
        << submitted.out << submitted.err;
    job_ = id.str(1);
  }
  std::string expected_digest(int steps) const override {
    EXPECT_EQ(train(scratch_ / "quiet", steps).exit_code, 0);
    return digest_of(scratch_ / "quiet");
  }
};

INSTANTIATE_TEST_SUITE_P(
    Examples, SlurmJobs,
    ::testing::Values(
        Job{"Vgg11",
            "vgg11-cifar10/job.sh",
            "vgg11.toml",
            "cifar10",
            {"--image-size", "32", "--batch-size", "16", "--micro-batches", "4"},
            {},
            2},
        Job{"Vgg11ByHand",
            "vgg11-cifar10/by-hand.sh",
            "vgg11.toml",
            "cifar10",
            {"--image-size", "32", "--batch-size", "16", "--micro-batches", "4"},
            {},
            2,
            By::kHand},
        Job{"Vgg11BySubmit",
            "vgg11-cifar10/job.sh",
            "vgg11.toml",
            "cifar10",
            {"--image-size", "32", "--batch-size", "16", "--micro-batches", "4"},
            {"--nodes=2", "--exclusive", "--time=10"},
            2,
            By::kSubmit},
        Job{"Mnist", "mnist/job.sh", "mnist.toml", "mnist", {"--micro-batches", "4"}, {}, 2},
        Job{"TinyImageNet",
            "tiny-imagenet/job.sh",
            "resnet18.toml",
            "image-folder",
            {"--batch-size", "32", "--micro-batches", "4", "--loader-threads", "1", "--warmup-steps", "5",
             "--schedule", "constant"},
            {"--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=2"},
            2},
        Job{"TinyImageNetOnOneNodeWithResnet50",
            "tiny-imagenet/job.sh",
            "resnet18.toml",
            "image-folder",
            {"--model", "resnet50", "--image-size", "32", "--batch-size", "16", "--micro-batches", "2",
             "--loader-threads", "1", "--warmup-steps", "5", "--schedule", "constant"},
            {"--ntasks-per-node=2", "--cpus-per-task=2"},
            2},
        Job{"Requeue", "requeue/job.sh", "", "mnist", {"--model", "mnist-cnn", "--batch-size", "32"}, {}, 2},
        Job{"GptTaskPerGpu",
            "gpt/task-per-gpu.sh",
            "gpt.toml",
            "text",
            {"--layers", "1", "--heads", "2", "--width", "32", "--context", "64", "--micro-batches", "4",
             "--warmup-steps", "5", "--schedule", "constant"},
            {},
            4},
        Job{"GptOneTask",
            "gpt/one-task.sh",
            "gpt.toml",
            "text",
            {"--layers", "1", "--heads", "2", "--width", "32", "--context", "64", "--micro-batches", "4",
             "--warmup-steps", "5", "--schedule", "constant"},
            {},
            2},
        Job{"GptTrainersPerWorker",
            "gpt/one-task.sh",
            "gpt.toml",
            "text",
            {"--layers", "1", "--heads", "2", "--width", "32", "--context", "64", "--micro-batches", "4",
             "--warmup-steps", "5", "--schedule", "constant"},
            {},
            4,
            By::kSlurm,
            {"--trainers-per-worker", "2"}}),
    [](const auto& info) { return info.param.name; });

TEST_P(SlurmJobs, RequeuedOnce_SameBits) {
  ::setenv("RUN_DIR", dir().c_str(), 1);
  ::setenv("DATA", data().c_str(), 1);
  ::setenv("REKINDLE", rekindle().c_str(), 1);
  ::setenv("INTERFACE", "lo", 1);
  ASSERT_NO_FATAL_FAILURE(submit());
  wait_for_step(3);
  EXPECT_FALSE(printed("warning")) << output();
  EXPECT_TRUE(eventually([&] { return trainers_now(dir()) == GetParam().trainers; })) << trainers_now(dir());
  // Which process has which device.
  EXPECT_TRUE(printed("  rank  host ")) << output();
  for (unsigned rank = 0; rank < GetParam().trainers; ++rank)
    EXPECT_TRUE(printed(str("\n  ", rank, "     "))) << output();
  if (GetParam().by != By::kHand) {
    cluster_->command({"scontrol", "requeue", job_});
    wait_for_restart(1);
  } else {
    cluster_->command({"scancel", "--signal=USR1", "--batch", job_});  // as at its time limit
    wait_until_printed("generation t2.g1");
    wait_for_steps(3);
  }
  stop_and_compare();
  if (GetParam().by == By::kHand) return;  // no copy of programs and environment
  const Outcome inspected = run({"inspect", dir(), "--no-verify"});
  for (const char* kept :
       {"options     run.toml", "programs    bin/: ", "environment ", "logs        logs/: "})
    EXPECT_NE(inspected.out.find(kept), std::string::npos) << kept << "\n" << inspected.out;
}

}  // namespace
}  // namespace rekindle::process_test
