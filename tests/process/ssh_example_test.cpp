// examples/ssh.sh, with an ssh that stays on this machine.
#include <gtest/gtest.h>

#include <fstream>

#include "base/process.hpp"
#include "base/text.hpp"
#include "harness.hpp"

namespace rekindle::process_test {
namespace {

class SshExample : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(scratch_ / "ssh") << "#!/bin/bash\n# -n HOST COMMAND\nexec bash -c \"$3\"\n";
    fs::permissions(scratch_ / "ssh", fs::perms::owner_all);
  }
  fs::path dir() const { return scratch_ / "run"; }
  // The command line of the example.
  Arguments example(const std::string& model) const {
    return {"/usr/bin/env",
            str("PATH=", scratch_.path().string(), ":", environment_variable("PATH")),
            str("REKINDLE=", rekindle()),
            str("RUN_DIR=", dir().string()),
            str("DATA=", mnist_data().string()),
            "INTERFACE=lo",
            "HOSTS=b c",
            fs::path(REKINDLE_SOURCE) / "examples/ssh.sh",
            "--steps",
            "1000000",
            "--model",
            model,
            "--batch-size",
            "16",
            "--micro-batches",
            "8"};
  }
  const Scratch scratch_;
};

// The second run has the directory of a complete one: its helpers must not take it for that.
TEST_F(SshExample, TheDirectoryHasACompleteRun_HelpersComeToTheLongerOne) {
  ASSERT_EQ(process_test::run(mnist_run(dir(), 1, 2)).exit_code, 0);
  Program program(example("mnist-cnn"));
  ASSERT_TRUE(eventually([&] { return trainers_now(dir()) == 3 || !program.running(); }));
  EXPECT_EQ(process_test::run({"stop", dir()}).exit_code, 0);
  EXPECT_EQ(program.wait().exit_code, 75);
  EXPECT_TRUE(eventually([&] { return processes_with(dir()).empty(); }));
}

TEST_F(SshExample, ARunThatDoesNotBegin_TheHelpersWaitNoLonger) {
  Program program(example("nothing"));
  EXPECT_TRUE(eventually([&] { return !program.running(); }));
  EXPECT_EQ(program.wait().exit_code, 64);
  EXPECT_TRUE(eventually([&] { return processes_with(dir()).empty(); }));
}

TEST_F(SshExample, HelpersComeAndLeaveWithTheRun_SameBits) {
  const fs::path dir = this->dir();
  Program example(this->example("mnist-cnn"));
  ASSERT_TRUE(eventually([&] { return trainers_now(dir) == 3 || !example.running(); }));
  EXPECT_EQ(process_test::run({"stop", dir}).exit_code, 0);
  const Outcome outcome = example.wait();
  EXPECT_EQ(outcome.exit_code, 75) << outcome.out << outcome.err;
  EXPECT_TRUE(eventually([&] { return processes_with(dir).empty(); }));
  const int steps = common_steps_after(reached_step(dir));
  ASSERT_EQ(process_test::run(mnist_run(dir, 2, steps) + Arguments{"--interface", "lo"}).exit_code, 0);
  EXPECT_EQ(digest_of(dir), quiet_digest(steps));
}

}  // namespace
}  // namespace rekindle::process_test
