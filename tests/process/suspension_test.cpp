// Suspended processes, and surplus coordinators.
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "../needs.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "live_run.hpp"
#include "namespaces.hpp"

namespace rekindle::process_test {
namespace {

class Suspension : public LiveRun {
 protected:
  pid_t coordinator() const { return parts_of(dir(), "coordinator").at(0); }
  static void signal_all(const std::vector<pid_t>& pids, int number) {
    for (const pid_t pid : pids) ::kill(pid, number);
  }
  void expect_nobody_was_lost() {
    EXPECT_EQ(times_logged("was lost"), 0) << log();
    EXPECT_EQ(times_logged("with 2 trainers"), 0) << log();  // still the first generation
  }
};

TEST_F(Suspension, CoordinatorStandsStillForLongerThanAHeartbeatMayBeLate_NobodyIsLost) {
  ASSERT_NO_FATAL_FAILURE(begin(2, {"--lost-after", "1s"}));
  const pid_t stopped = coordinator();
  ::kill(stopped, SIGSTOP);
  ::usleep(3'000'000);  // this is the suspension itself, not a wait for an event
  ::kill(stopped, SIGCONT);
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(50));
  EXPECT_EQ(coordinator(), stopped);
  expect_nobody_was_lost();
  stop_and_compare();
}

TEST_F(Suspension, CoordinatorStandsStillForGood_ReplacedAndNoStepIsLost) {
  ASSERT_NO_FATAL_FAILURE(begin(2));
  const pid_t stopped = coordinator();
  ::kill(stopped, SIGSTOP);
  ASSERT_NO_FATAL_FAILURE(wait_for_log("is taken over with 2 trainers"));
  ::kill(stopped, SIGCONT);  // its supervisor has killed it
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(3));
  EXPECT_NE(coordinator(), stopped);
  EXPECT_EQ(times_logged("was lost"), 0) << log();
  EXPECT_EQ(times_logged("generation t2.g1"), 0) << log();  // the generation went on
  stop_and_compare();
}

// The coordinator cannot notice that its supervisor is dead, nor obey `rekindle stop`.
TEST_F(Suspension, CoordinatorStandsStillAndItsSupervisorDies_TheSameCommandGoesOn) {
  ASSERT_NO_FATAL_FAILURE(begin(1, {"--checkpoint-every", "5"}));
  const pid_t stopped = coordinator();
  ::kill(stopped, SIGSTOP);
  program_->signal(SIGKILL);
  program_->wait();
  program_.emplace(Arguments{rekindle()} + mnist_run(dir(), 1, 1000000) +
                   Arguments{"--checkpoint-every", "5"});
  ASSERT_NO_FATAL_FAILURE(wait_for_log("generation t2.g1"));
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(10));
  ASSERT_EQ(::kill(stopped, SIGCONT), 0);
  EXPECT_TRUE(eventually([&] { return command_line(stopped).empty(); })) << "it finds its successor";
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(10));
  stop_and_compare();
}

TEST_F(Suspension, TrainerStandsStillAndItsWorkerDies_TheTrainerIsGoneToo) {
  ASSERT_NO_FATAL_FAILURE(begin(2));
  const pid_t stopped = parts_of(dir(), "trainer").at(1);
  ::kill(stopped, SIGSTOP);
  ::kill(static_cast<pid_t>(stat_field(stopped, 4)), SIGKILL);  // proc(5): the parent
  ASSERT_TRUE(eventually([&] { return stat_field(stopped, 22) == 0; }));
  ASSERT_NO_FATAL_FAILURE(wait_for_log("with 1 trainer"));
  stop_and_compare();
}

TEST_F(Suspension, WorkerStandsStillForGood_ItsTrainerLeavesAndTheRunGoesOn) {
  ASSERT_NO_FATAL_FAILURE(begin(2));
  const pid_t stopped = parts_of(dir(), "worker").at(1);
  ::kill(stopped, SIGSTOP);
  ASSERT_NO_FATAL_FAILURE(wait_for_log("with 1 trainer"));
  ASSERT_TRUE(eventually([&] { return parts_of(dir(), "trainer").size() == 1; }));
  ::kill(stopped, SIGCONT);
  ASSERT_NO_FATAL_FAILURE(wait_for_log("with 2 trainers"));  // the replacement worker is accepted
  stop_and_compare();
}

TEST_F(Suspension, EverythingStandsStillForAMinute_NobodyIsLost) {
  ASSERT_NO_FATAL_FAILURE(begin(2));
  const auto all = processes_with(dir());
  signal_all(all, SIGSTOP);
  ::sleep(60);  // this is the suspension itself, not a wait for an event
  signal_all(all, SIGCONT);
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(50));
  expect_nobody_was_lost();
  EXPECT_EQ(processes_with(dir()), all);
  stop_and_compare();
}

TEST_F(Suspension, SecondRunInTheSameDirectory_RefusedAndTheRunGoesOn) {
  ASSERT_NO_FATAL_FAILURE(begin(2));
  const pid_t before = coordinator();
  const Outcome second = run(mnist_run(dir(), 1, 1000000));
  EXPECT_EQ(second.exit_code, 78);
  EXPECT_NE(second.err.find("is held by a live run"), std::string::npos) << second.err;
  const Outcome by_hand = run({"coordinator", "--run-dir", dir()});
  EXPECT_EQ(by_hand.exit_code, 78);
  EXPECT_NE(by_hand.err.find("is held by a live run"), std::string::npos) << by_hand.err;
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(10));
  EXPECT_EQ(coordinator(), before);
  expect_nobody_was_lost();
  stop_and_compare();
}

// The first node of a run is suspended and unreachable. The run is started on another node, which takes over
// the run (30 s); then the first node continues.
TEST_F(Suspension, OldCoordinatorOnAnotherHostWakesUp_FindsItsSuccessorAndStops) {
  if (const auto why = Network::unavailable()) REKINDLE_SKIP(Needs::kNetworks, *why);
  Network network(2);
  const Arguments options{"--interface", "eth0", "--exchange", "tcp", "--checkpoint-every", "10"};
  const Arguments renamed{
      "/usr/bin/unshare", "--uts", "/bin/sh", "-c", "hostname node-that-sleeps && exec \"$@\"", "sh"};
  Program first(network.on(0) + renamed + Arguments{rekindle()} + mnist_run(dir(), 2, 1000000) + options);
  ASSERT_TRUE(eventually([&] { return logged("is committed") || !first.running(); }));
  const auto old = processes_with(dir());
  signal_all(old, SIGSTOP);
  network.cut_off(0);
  program_.emplace(network.on(1) + Arguments{rekindle()} + mnist_run(dir(), 2, 1000000) + options);
  ASSERT_NO_FATAL_FAILURE(wait_for_log("generation t2.g1 resumes from step"));
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(10));
  network.reconnect(0);
  signal_all(old, SIGCONT);
  const Outcome outcome = first.wait();
  EXPECT_EQ(outcome.exit_code, 70);
  EXPECT_NE(outcome.err.find("another coordinator has taken over"), std::string::npos) << outcome.err;
  EXPECT_TRUE(eventually([&] {
    return std::all_of(old.begin(), old.end(), [](pid_t pid) { return command_line(pid).empty(); });
  }));
  const int committed = times_logged("is committed");
  ASSERT_NO_FATAL_FAILURE(wait_for_log("is committed", committed + 2));
  EXPECT_EQ(times_logged("t2.g1 resumes"), 1);
  stop_and_compare();
}

}  // namespace
}  // namespace rekindle::process_test
