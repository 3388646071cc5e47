// A job of a trainer program outside of the tree (tests/process/own_model_test.cpp): each attempt trains with
// the copy in the run directory.
#include <fstream>

#include "base/command.hpp"
#include "base/text.hpp"
#include "cluster.hpp"

namespace rekindle::process_test {
namespace {

const fs::path kTrainer = fs::path(OWN_MODEL) / "my model" / "build" / "own-trainer";

class SlurmOwnModel : public SlurmRun {
 protected:
  Arguments options(const fs::path& run_dir, int steps) const {
    return {"--run-dir", run_dir,      "--model",         "small-cnn", "--dataset",    "mnist",
            "--data",    mnist_data(), "--image-size",    "28",        "--batch-size", "16",
            "--steps",   str(steps),   "--micro-batches", "4"};
  }
  CommandOutput own_trainer(const Arguments& words) const {
    return run_command(Arguments{kTrainer} + words, std::chrono::minutes(10)).value();
  }
  void expect_kept_trainers() const {
    const auto trainers = parts_of(dir(), "trainer");
    EXPECT_FALSE(trainers.empty());
    for (const pid_t pid : trainers) {
      std::error_code gone;
      const fs::path program = fs::read_symlink(str("/proc/", pid, "/exe"), gone);
      EXPECT_TRUE(gone || program == fs::canonical(dir()) / "bin" / "rekindle-trainer") << program;
    }
  }
};

TEST_F(SlurmOwnModel, RequeuedOnTwoNodes_EachAttemptTrainsWithTheKeptCopy) {
  const CommandOutput submitted =
      own_trainer(Arguments{"submit"} + options(dir(), 1000000) + Arguments{"--", "--nodes=2"});
  ASSERT_TRUE(submitted.ok()) << submitted.err;
  const std::string words = "job ";
  ASSERT_TRUE(submitted.out.starts_with(words)) << submitted.out;
  job_ = submitted.out.substr(words.size(), submitted.out.find(':') - words.size());
  wait_for_step(5);
  expect_kept_trainers();
  cluster_->command({"scontrol", "requeue", job_});
  wait_for_restart(1);
  expect_kept_trainers();
  ASSERT_EQ(run({"stop", dir()}).exit_code, 0);
  wait_until_over();
  // The plain rekindle finishes the run, also with the kept copy.
  const int steps = static_cast<int>(reached_step(dir())) + 5;
  const Outcome finished = run(Arguments{"local"} + options(dir(), steps));
  ASSERT_EQ(finished.exit_code, 0) << finished.out << finished.err;
  const CommandOutput straight = own_trainer(Arguments{"local"} + options(scratch_ / "straight", steps));
  ASSERT_TRUE(straight.ok()) << straight.err;
  EXPECT_EQ(digest_of(dir()), digest_of(scratch_ / "straight"));
}

}  // namespace
}  // namespace rekindle::process_test
