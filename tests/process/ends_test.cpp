// How local runs end: the exit code and the last line (the table in docs/slurm.md). Other tests cover ends by
// faults.
#include <gtest/gtest.h>

#include <csignal>

#include "harness.hpp"

namespace rekindle::process_test {
namespace {

// One run, which continues after each of its ends.
TEST(LocalEnds, BySignalsAndTheEndOfTheWork_ExitCodeAndLine) {
  const Scratch scratch;
  const fs::path dir = scratch / "run";
  for (const auto& [signal, exit_code] :
       {std::pair(SIGUSR1, 75), std::pair(SIGTERM, 75), std::pair(SIGHUP, 75), std::pair(SIGINT, 130)}) {
    const std::uint64_t before = reached_step(dir);
    Program program(Arguments{rekindle()} + mnist_run(dir, 1, 1000000));
    ASSERT_TRUE(eventually([&] { return reached_step(dir) >= before + 3 || !program.running(); }));
    program.signal(signal);
    const Outcome outcome = program.wait();
    EXPECT_EQ(outcome.exit_code, exit_code) << signal << ": " << outcome.out << outcome.err;
    EXPECT_NE(outcome.out.find("the state is saved: run the same command again to go on"), std::string::npos)
        << outcome.out;
  }
  const int steps = static_cast<int>(reached_step(dir)) + 3;
  const Outcome finished = run(mnist_run(dir, 1, steps));
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_NE(finished.out.find("finished: "), std::string::npos) << finished.out;
  const Outcome again = run(mnist_run(dir, 1, steps));
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_NE(again.out.find("the run is complete: "), std::string::npos) << again.out;
}

// As when a terminal is closed.
TEST(LocalEnds, HangupUnderNohup_TheRunGoesOn) {
  const Scratch scratch;
  const fs::path dir = scratch / "run";
  Program program(Arguments{"/usr/bin/nohup", rekindle()} + mnist_run(dir, 1, 1000000));
  ASSERT_TRUE(eventually([&] { return reached_step(dir) >= 3 || !program.running(); }));
  program.signal(SIGHUP);
  const std::uint64_t before = reached_step(dir);
  EXPECT_TRUE(eventually([&] { return reached_step(dir) >= before + 10 || !program.running(); }));
  program.signal(SIGTERM);
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 75) << outcome.out << outcome.err;
  EXPECT_GE(reached_step(dir), before + 10);
}

}  // namespace
}  // namespace rekindle::process_test
