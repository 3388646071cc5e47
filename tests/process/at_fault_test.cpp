// Trainers that hang, and hosts that are at fault: judged, named and left out, and the run goes on.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "../needs.hpp"
#include "live_run.hpp"

namespace rekindle::process_test {
namespace {

class HungTrainer : public LiveRun {};

// Only the thread that computes stands still (other_bits.cpp). The heartbeats go on.
TEST_F(HungTrainer, InMidStep_JudgedHungAndReplacedAndTheOthersKeepTheState) {
#ifdef __SANITIZE_ADDRESS__
  REKINDLE_SKIP(Needs::kMachine, "the address sanitizer wants to be the first library");
#endif
  const fs::path hang = scratch_ / "hang";
  ASSERT_NO_FATAL_FAILURE(
      begin(3, {"--hang-after", "5s"},
            {"/usr/bin/env", "LD_PRELOAD=" REKINDLE_OTHER_BITS, "REKINDLE_TEST_OTHER_BITS=hangs:w1",
             "REKINDLE_TEST_HANG=" + hang.string()}));
  std::ofstream(hang).put('x');
  ASSERT_NO_FATAL_FAILURE(wait_for_log("it hangs (computing): no progress for 5 s"));
  EXPECT_FALSE(fs::exists(hang));
  ASSERT_NO_FATAL_FAILURE(wait_for_log("with 3 trainers, 1 of them new"));
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(5));
  EXPECT_EQ(times_logged("warning coordinator: trainer w1-"), 1) << log();
  EXPECT_EQ(times_logged("was lost"), 1) << log();  // the others waited for it, and are not blamed
  EXPECT_EQ(times_logged("no heartbeat"), 0) << log();
  EXPECT_EQ(times_logged("resumes from step"), 0) << log();
  stop_and_compare();
}

// Without a heartbeat for longer than --hang-after, but not for longer than --lost-after. The only trainer
// waits for no peer, and writes nothing just after a commit, so the signal arrives within a step.
TEST_F(HungTrainer, StoppedInMidStep_JudgedHungBeforeItIsLost) {
  ASSERT_NO_FATAL_FAILURE(
      begin(1, {"--lost-after", "10min", "--hang-after", "5s", "--checkpoint-every", "40"}));
  ASSERT_NO_FATAL_FAILURE(wait_for_log("is committed"));
  const pid_t stopped = parts_of(dir(), "trainer").at(0);
  ::kill(stopped, SIGSTOP);
  ASSERT_NO_FATAL_FAILURE(wait_for_log("it hangs ("));
  ASSERT_TRUE(eventually([&] { return ::kill(stopped, 0) != 0; }));  // its worker has killed it
  ASSERT_NO_FATAL_FAILURE(wait_for_log("resumes from step"));
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(5));
  EXPECT_EQ(times_logged("no heartbeat"), 0) << log();
  stop_and_compare();
}

class BadHost : public LiveRun {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) REKINDLE_SKIP(Needs::kRoot, "only root can give a process another host name");
  }
};

TEST_F(BadHost, TrainersCrashThereAndNowhereElse_LeftOutAndTheRunGoesOn) {
  constexpr int kLimit = 3;
  ASSERT_NO_FATAL_FAILURE(begin(1));
  const pid_t own = parts_of(dir(), "trainer").at(0);
  Program helper(Arguments{"/usr/bin/unshare", "--uts", "/bin/sh", "-c", "hostname bad-host && exec \"$@\"",
                           "sh", rekindle(), "join", dir()});
  for (int crash = 1; crash <= kLimit; ++crash) {
    ASSERT_NO_FATAL_FAILURE(wait_for_log("with 2 trainers", crash));
    ASSERT_NO_FATAL_FAILURE(wait_for_steps(2));
    EXPECT_EQ(times_logged("is excluded"), 0) << log();
    for (const pid_t pid : parts_of(dir(), "trainer"))
      if (pid != own) ::kill(pid, SIGSEGV);
  }
  ASSERT_NO_FATAL_FAILURE(
      wait_for_log("host bad-host is excluded: trainers crash or hang on host bad-host and nowhere else"));
  const Outcome outcome = helper.wait();
  EXPECT_EQ(outcome.exit_code, 70) << outcome.out << outcome.err;
  EXPECT_NE(outcome.err.find("does not accept these workers"), std::string::npos) << outcome.err;
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(5));
  EXPECT_EQ(trainers_now(dir()), 1U);
  EXPECT_EQ(parts_of(dir(), "trainer"), std::vector<pid_t>{own});
  stop_and_compare();
}

}  // namespace
}  // namespace rekindle::process_test
