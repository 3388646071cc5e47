// examples/vgg11-cifar10/by-hand.sh, with an srun that stays on this machine and a small model. tests/slurm
// has the job on real Slurm daemons, without a killed process.
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <iterator>

#include "base/process.hpp"
#include "base/text.hpp"
#include "harness.hpp"

namespace rekindle::process_test {
namespace {

class ByHandExample : public ::testing::Test {
 protected:
  void SetUp() override {
    make("srun", "exec \"${@:4}\"");
    make("scontrol", str("[[ $1 != requeue ]] || echo \"$2\" > ", (scratch_ / "requeued").string()));
    make("small",
         str("options=(--model mnist-cnn --batch-size 16 --micro-batches 8)\n",
             "[[ $1 != local ]] || set -- local \"${options[@]}\" \"${@:4}\"\nexec ", rekindle(), " \"$@\""));
  }
  // A program on PATH.
  void make(const std::string& name, const std::string& lines) const {
    std::ofstream(scratch_ / name) << "#!/bin/bash\n" << lines << "\n";
    fs::permissions(scratch_ / name, fs::perms::owner_all);
  }
  fs::path dir() const { return scratch_ / "run"; }
  Arguments script() const {
    return {"/usr/bin/env",
            str("PATH=", scratch_.path().string(), ":", environment_variable("PATH")),
            str("REKINDLE=", (scratch_ / "small").string()),
            str("RUN_DIR=", dir().string()),
            str("DATA=", mnist_data().string()),
            "INTERFACE=lo",
            "SLURM_NNODES=3",
            "SLURM_JOB_ID=7",
            "/bin/bash",
            fs::path(REKINDLE_SOURCE) / "examples/vgg11-cifar10/by-hand.sh",
            "--steps",
            "1000000"};
  }
  std::string requeued() const {
    std::ifstream file(scratch_ / "requeued");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // `rekindle local`, in the place of srun.
  pid_t first_process() const {
    for (const pid_t pid : processes_with(dir()))
      if (command_line(pid).starts_with(rekindle() + '\0' + "local" + '\0')) return pid;
    return 0;
  }
  Scratch scratch_;
};

TEST_F(ByHandExample, FirstProcessKilled_TheTimeLimitStillSavesAndRequeues) {
  Program job(script());
  ASSERT_TRUE(eventually([&] { return trainers_now(dir()) == 3 || !job.running(); })) << job.printed();
  const auto joined = [&] { return times_in(job.printed(), "joined: 1 trainer") == 2; };
  ASSERT_TRUE(eventually([&] { return joined() || !job.running(); })) << job.printed();
  const pid_t first = first_process();
  ASSERT_GT(first, 0);
  ASSERT_EQ(::kill(first, SIGKILL), 0);
  ASSERT_TRUE(eventually([&] { return ::kill(first, 0) != 0; })) << "the script has not seen its end";
  const std::uint64_t reached = reached_step(dir());
  ASSERT_TRUE(eventually([&] { return reached_step(dir()) > reached + 100; })) << job.printed();
  job.signal(SIGUSR1);
  const Outcome outcome = job.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;  // of scontrol
  EXPECT_EQ(requeued(), "7\n") << outcome.out << outcome.err;
  EXPECT_TRUE(eventually([&] { return processes_with(dir()).empty(); }));
  const int steps = common_steps_after(reached_step(dir()));
  ASSERT_EQ(process_test::run(mnist_run(dir(), 2, steps) + Arguments{"--interface", "lo"}).exit_code, 0);
  EXPECT_EQ(digest_of(dir()), quiet_digest(steps));
}

}  // namespace
}  // namespace rekindle::process_test
