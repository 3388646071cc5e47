// A stop may arrive at any moment, and the processes that received it may die: the state is saved, and the
// next attempt continues with the same bits.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <random>

#include "base/text.hpp"
#include "harness.hpp"

namespace rekindle::process_test {
namespace {

constexpr int kSteps = 400, kMostAttempts = 40;

class Stops : public ::testing::TestWithParam<const char*> {
 protected:
  int upto(int n) { return std::uniform_int_distribution(0, n - 1)(random_); }
  void wait_at_most(int ms) { ::usleep(static_cast<useconds_t>(1000 * upto(ms))); }

  const unsigned seed_ = std::random_device{}();
  std::mt19937 random_{seed_};
  const ::testing::ScopedTrace trace_{__FILE__, __LINE__, str("seed ", seed_)};
  Scratch scratch_;
};
INSTANTIATE_TEST_SUITE_P(Exchanges, Stops, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return info.param; });

// Attempts are stopped after 0 to 3 seconds: while they start, gather, restore, compute, evaluate (an epoch
// has 6 steps), write (every 10 steps), or form a generation after a loss. A kill follows every other stop.
TEST_P(Stops, AtRandomMomentsOfManyAttempts_SameBits) {
  const fs::path dir = scratch_ / "run";
  const auto arguments = [&](int workers) {
    return mnist_run(dir, workers, kSteps) + Arguments{"--exchange", GetParam(), "--checkpoint-every", "10"};
  };
  int attempts = 0, stopped = 0;
  for (bool finished = false; !finished; ++attempts) {
    // The last attempts may take their time.
    const bool last = attempts >= kMostAttempts;
    Program program(Arguments{rekindle()} + arguments(1 + upto(3)));
    if (!last) {
      ASSERT_TRUE(eventually([&] { return can_be_ended(program.pid()) || !program.running(); }));
      wait_at_most(3000);
      if (upto(3) == 0) {
        if (const auto trainers = parts_of(dir, "trainer"); !trainers.empty()) ::kill(trainers[0], SIGKILL);
        wait_at_most(200);
      }
      program.signal(upto(2) == 0 ? SIGUSR1 : SIGTERM);
      if (upto(2) == 0) {
        wait_at_most(100);
        const char* const kinds[] = {"trainer", "worker", "coordinator"};
        const auto pids = parts_of(dir, kinds[upto(3)]);
        if (!pids.empty())
          ::kill(pids[static_cast<std::size_t>(upto(static_cast<int>(pids.size())))], SIGKILL);
      }
    }
    const Outcome outcome = program.wait();
    ASSERT_TRUE(outcome.exit_code == 75 || outcome.exit_code == 0)
        << "attempt " << attempts << ": " << outcome.exit_code << "\n"
        << outcome.out << outcome.err;
    ASSERT_TRUE(eventually([&] { return processes_with(dir).empty(); }));
    stopped += outcome.exit_code == 75 ? 1 : 0;
    finished = outcome.exit_code == 0;
    ASSERT_TRUE(finished || !last);
  }
  std::cout << stopped << " attempts were stopped, in " << kSteps << " steps" << std::endl;
  EXPECT_GE(stopped, 3);
  EXPECT_EQ(digest_of(dir), quiet_digest(kSteps));
  EXPECT_EQ(reached_step(dir), static_cast<std::uint64_t>(kSteps));
}

}  // namespace
}  // namespace rekindle::process_test
