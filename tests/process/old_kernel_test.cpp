// On a kernel of Red Hat Enterprise Linux 8, without pidfd_open(2) and what came after it.

#include <csignal>

#include "live_run.hpp"

namespace rekindle::process_test {
namespace {

class OldKernel : public LiveRun {};

TEST_F(OldKernel, TrainerAndWorkerKilled_SameBits) {
  ASSERT_NO_FATAL_FAILURE(begin(2, {"--trainers-per-worker", "2"}, {REKINDLE_OLD_KERNEL}));
  ::kill(parts_of(dir(), "trainer").front(), SIGKILL);
  ASSERT_NO_FATAL_FAILURE(wait_for_log("of them new"));
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(3));
  ::kill(parts_of(dir(), "worker").back(), SIGKILL);
  ASSERT_NO_FATAL_FAILURE(wait_for_log("of them new", 2));
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(3));
  const pid_t before = parts_of(dir(), "coordinator").front();
  ::kill(before, SIGKILL);
  ASSERT_TRUE(eventually([&] {
    const auto now = parts_of(dir(), "coordinator");
    return !now.empty() && now.front() != before;
  }));
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(3));
  stop_and_compare();
}

// The unit tests of what waits for the end of processes, and of shared memory.
TEST_F(OldKernel, UnitTests) {
  for (const std::string test : {REKINDLE_UNIT_TESTS}) {
    const Outcome outcome = Program({REKINDLE_OLD_KERNEL, test, "--gtest_brief=1"}).wait();
    EXPECT_EQ(outcome.exit_code, 0) << test << "\n" << outcome.out << outcome.err;
  }
}

}  // namespace
}  // namespace rekindle::process_test
