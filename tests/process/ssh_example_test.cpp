// examples/ssh.sh, with an ssh that stays on this machine.
#include <gtest/gtest.h>

#include <fstream>

#include "base/process.hpp"
#include "base/text.hpp"
#include "harness.hpp"

namespace rekindle::process_test {
namespace {

TEST(SshExample, HelpersComeAndLeaveWithTheRun_SameBits) {
  const Scratch scratch;
  const fs::path dir = scratch / "run", ssh = scratch / "ssh";
  std::ofstream(ssh) << "#!/bin/bash\n# -n HOST COMMAND\nexec bash -c \"$3\"\n";
  fs::permissions(ssh, fs::perms::owner_all);
  const Arguments job{"--model", "mnist-cnn", "--batch-size", "16", "--micro-batches", "8"};
  const std::string path = str("PATH=", scratch.path().string(), ":", environment_variable("PATH"));
  const fs::path script = fs::path(REKINDLE_SOURCE) / "examples/ssh.sh";
  Program example(Arguments{"/usr/bin/env", path, str("REKINDLE=", rekindle()), str("RUN_DIR=", dir.string()),
                            str("DATA=", mnist_data().string()), "INTERFACE=lo", "HOSTS=b c", script,
                            "--steps", "1000000"} +
                  job);
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
