// A run whose first process dies: a helper (`rekindle join`) takes its place, and no step is lost.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "live_run.hpp"
#include "namespaces.hpp"
#include "run/layout.hpp"
#include "run/records.hpp"
#include "run/terms.hpp"

namespace rekindle::process_test {
namespace {

std::uint16_t free_port() {
  const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  return ntohs(address.sin_port);
}

class TakeOver : public LiveRun {
 protected:
  Arguments join(const Arguments& more = {}) const { return Arguments{rekindle(), "join", dir()} + more; }
  // A run of one worker, and this helper in it.
  void begin_with(std::optional<Program>& helper, const Arguments& more = {}) {
    begin(1, more);
    helper.emplace(join());
    wait_for_log("with 2 trainers");
    // The helper looks at the run once a second, and takes part from its own point of view then.
    wait_for_helpers_line(*helper, "joined: 1 trainer");
  }
  static void wait_for_helpers_line(const Program& helper, const std::string& words) {
    ASSERT_TRUE(eventually([&] { return helper.printed().find(words) != std::string::npos; }))
        << helper.printed();
  }
  void wait_for_steps_of_anybody(std::uint64_t more) {
    const std::uint64_t target = reached_step(dir()) + more;
    ASSERT_TRUE(eventually([&] { return reached_step(dir()) >= target; })) << log();
  }
  void kill_first_process() {
    program_->signal(SIGKILL);
    program_->wait();
  }
  // Kills all processes of the run but those of the helper.
  void kill_first_machine(const Program& helper) {
    kill_first_process();
    const auto supervised_by_helper = [&](pid_t pid) {
      return static_cast<pid_t>(stat_field(pid, 4)) == helper.pid();
    };
    for (const char* part : {"coordinator", "worker"}) {
      for (const pid_t pid : parts_of(dir(), part))
        if (!supervised_by_helper(pid)) ::kill(pid, SIGKILL);
    }
  }
  bool ended_in_order() const {
    const auto holder = run::newest_term(run::Layout(dir()));
    return holder && *holder && (*holder)->ended && !(*holder)->orphaned;
  }
};

TEST_F(TakeOver, FirstProcessKilled_HelperGoesOnCommitsAndKeepsTheBits) {
  std::optional<Program> helper;
  ASSERT_NO_FATAL_FAILURE(begin_with(helper));
  const std::uint64_t before = reached_step(dir());
  kill_first_process();
  ASSERT_NO_FATAL_FAILURE(wait_for_helpers_line(*helper, "takes its place"));
  ASSERT_NO_FATAL_FAILURE(wait_for_steps_of_anybody(20));
  EXPECT_EQ(times_logged("starts from initial values"), 1) << "no step may be made twice";
  EXPECT_EQ(times_logged("resumes from step"), 0) << log();
  EXPECT_GT(reached_step(dir()), before);
  EXPECT_EQ(run({"stop", dir()}).exit_code, 0);
  const Outcome outcome = helper->wait();
  EXPECT_EQ(outcome.exit_code, 75) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find("start the run in"), std::string::npos) << outcome.out;
  EXPECT_TRUE(ended_in_order());
  EXPECT_EQ(missing_steps(dir(), reached_step(dir())), std::vector<std::uint64_t>());
  finish_and_compare();
}

TEST_F(TakeOver, FirstMachineKilled_OneOfTwoHelpersTakesOverAndFinishesTheRun) {
  std::optional<Program> helper;
  constexpr int kSteps = 300;
  program_.emplace(Arguments{rekindle()} + mnist_run(dir(), 1, kSteps));
  wait_for_step(5);
  helper.emplace(join());
  Program other(join());
  ASSERT_NO_FATAL_FAILURE(wait_for_log("with 3 trainers"));
  ASSERT_NO_FATAL_FAILURE(wait_for_helpers_line(*helper, "joined: 1 trainer"));
  ASSERT_NO_FATAL_FAILURE(wait_for_helpers_line(other, "joined: 1 trainer"));
  kill_first_process();
  const Outcome one = helper->wait(), two = other.wait();
  EXPECT_EQ(one.exit_code, 0) << one.out << one.err;
  EXPECT_EQ(two.exit_code, 0) << two.out << two.err;
  const auto completed = [](const Outcome& outcome) { return times_in(outcome.out, "the run is complete"); };
  EXPECT_EQ(completed(one) + completed(two), 1U) << one.out << two.out;
  EXPECT_EQ(run(mnist_run(scratch_ / "quiet", 2, kSteps)).exit_code, 0);
  EXPECT_EQ(digest_of(dir()), digest_of(scratch_ / "quiet"));
}

TEST_F(TakeOver, FirstProcessAndCoordinatorKilledTogether_HelperGoesOn) {
  std::optional<Program> helper;
  ASSERT_NO_FATAL_FAILURE(begin_with(helper, {"--checkpoint-every", "50"}));
  kill_first_machine(*helper);
  ASSERT_NO_FATAL_FAILURE(wait_for_steps_of_anybody(20));
  helper->signal(SIGUSR1);  // it is the run's supervisor now
  const Outcome outcome = helper->wait();
  EXPECT_EQ(outcome.exit_code, 75) << outcome.out << outcome.err;
  finish_and_compare();
}

// The helper cannot listen where others would reach it: its one port is its trainer's.
TEST_F(TakeOver, HelperWithoutAPortForACoordinator_SavesWhatItHolds) {
  ASSERT_NO_FATAL_FAILURE(begin(1));
  const std::string port = str(free_port());
  Program helper(join({"--port-range", str(port, "-", port)}));
  ASSERT_NO_FATAL_FAILURE(wait_for_log("with 2 trainers"));
  ASSERT_NO_FATAL_FAILURE(wait_for_helpers_line(helper, "joined: 1 trainer"));
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(3));
  const std::uint64_t before = reached_step(dir());
  kill_first_process();
  const Outcome outcome = helper.wait();
  EXPECT_EQ(outcome.exit_code, 75) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find("what this machine's trainers hold is saved"), std::string::npos) << outcome.out;
  EXPECT_GE(reached_step(dir()), before);
  finish_and_compare();
}

TEST_F(TakeOver, CoordinatorAloneKilled_ItsSupervisorKeepsTheRun) {
  std::optional<Program> helper;
  ASSERT_NO_FATAL_FAILURE(begin_with(helper));
  for (const pid_t pid : parts_of(dir(), "coordinator")) ::kill(pid, SIGKILL);
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(50));
  EXPECT_EQ(helper->printed().find("takes its place"), std::string::npos) << helper->printed();
  stop_and_compare();
  EXPECT_EQ(helper->wait().exit_code, 0);
}

TEST_F(TakeOver, SecondInterrupt_EndsTheRunForItsHelpers) {
  std::optional<Program> helper;
  ASSERT_NO_FATAL_FAILURE(begin_with(helper));
  const auto trainers = parts_of(dir(), "trainer");
  for (const pid_t pid : trainers)
    ::kill(pid, SIGSTOP);  // so that the run is not saved before the second signal
  program_->signal(SIGINT);
  program_->signal(SIGINT);
  EXPECT_EQ(program_->wait().exit_code, 130);
  for (const pid_t pid : trainers) ::kill(pid, SIGCONT);
  EXPECT_TRUE(ended_in_order());
  const Outcome outcome = helper->wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(outcome.out.find("takes its place"), std::string::npos) << outcome.out;
}

// Its worker hears nothing any more, as behind a broken link.
TEST_F(TakeOver, RunEndsAndTheHelpersWorkerIsDeaf_HelperLeaves) {
  std::optional<Program> helper;
  ASSERT_NO_FATAL_FAILURE(begin_with(helper, {"--lost-after", "2s"}));
  for (const pid_t pid : parts_of(dir(), "worker")) {
    if (static_cast<pid_t>(stat_field(pid, 4)) == helper->pid()) ::kill(pid, SIGSTOP);
  }
  stop_and_compare();
  const Outcome outcome = helper->wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("the run has ended"), std::string::npos) << outcome.out;
}

TEST_F(TakeOver, JoinOfACompleteRun_SaysSoAtOnce) {
  ASSERT_EQ(run(mnist_run(dir(), 1, 3)).exit_code, 0);
  const Outcome outcome = run({"join", dir()});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("the run is complete (3 steps)"), std::string::npos) << outcome.out;
}

// The first machine vanishes: nothing on it can say so, nor be asked. The helper waits until the run has been
// silent for longer than a supervisor may pause before it starts its coordinator again.
TEST_F(TakeOver, FirstHostVanishes_HelperOnAnotherHostGoesOn) {
  if (const auto why = Network::unavailable()) GTEST_SKIP() << *why;
  Network network(2);
  const Arguments on_the_network{"--interface", "eth0", "--exchange", "tcp"};
  ASSERT_NO_FATAL_FAILURE(begin(1, on_the_network, network.on(0)));
  const Arguments elsewhere{
      "/usr/bin/unshare", "--uts", "/bin/sh", "-c", "hostname away && exec \"$@\"", "sh"};
  Program helper(network.on(1) + elsewhere + join({"--interface", "eth0"}));
  ASSERT_NO_FATAL_FAILURE(wait_for_log("with 2 trainers"));
  ASSERT_NO_FATAL_FAILURE(wait_for_helpers_line(helper, "joined: 1 trainer"));
  network.cut_off(0);
  kill_first_machine(helper);
  ASSERT_NO_FATAL_FAILURE(wait_for_helpers_line(helper, "takes its place"));
  ASSERT_NO_FATAL_FAILURE(wait_for_steps_of_anybody(20));
  helper.signal(SIGUSR1);
  const Outcome outcome = helper.wait();
  EXPECT_EQ(outcome.exit_code, 75) << outcome.out << outcome.err;
  finish_and_compare();
}

}  // namespace
}  // namespace rekindle::process_test
