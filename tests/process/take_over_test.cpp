// A run whose first process dies: a helper (`rekindle join`) takes its place, and no step is lost.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <csignal>
#include <fstream>

#include "../needs.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "namespaces.hpp"
#include "run/layout.hpp"
#include "take_over_fixture.hpp"

namespace rekindle::process_test {
namespace {

// A port that the kernel gives to no other program, because this socket stays bound. With SO_REUSEADDR, one
// program that asks for exactly this port may listen there (socket(7)): no socket listens yet.
class KeptPort {
 public:
  KeptPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    const int one = 1;
    EXPECT_EQ(::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one), 0);
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    number_ = ntohs(address.sin_port);
  }
  std::uint16_t number() const { return number_; }

 private:
  Fd socket_;
  std::uint16_t number_ = 0;
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
  // `rekindle join` cannot start a run, so its line must not ask for the same command.
  EXPECT_NE(outcome.out.find(str("the state is saved: start the run in ", dir().string(),
                                 " with its own command to go on")),
            std::string::npos)
      << outcome.out;
  EXPECT_EQ(outcome.out.find("the same command"), std::string::npos) << outcome.out;
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
  EXPECT_EQ(digest_of(dir()), quiet_digest(kSteps));
}

TEST_F(TakeOver, FirstProcessAndCoordinatorKilledTogether_HelperGoesOn) {
  std::optional<Program> helper;
  ASSERT_NO_FATAL_FAILURE(begin_with(helper, {"--checkpoint-every", "50"}));
  kill_first_machine(*helper);
  ASSERT_NO_FATAL_FAILURE(wait_for_steps_of_anybody(20));
  helper->signal(SIGUSR1);  // the helper is the supervisor of the run now
  const Outcome outcome = helper->wait();
  EXPECT_EQ(outcome.exit_code, 75) << outcome.out << outcome.err;
  finish_and_compare();
}

// The helper cannot listen on a port that others can reach: its trainer uses the only port.
TEST_F(TakeOver, HelperWithoutAPortForACoordinator_SavesWhatItHolds) {
  ASSERT_NO_FATAL_FAILURE(begin(1));
  const KeptPort kept;
  const std::string port = str(kept.number());
  Program helper(join({"--port-range", str(port, "-", port)}));
  ASSERT_NO_FATAL_FAILURE(wait_for_log("with 2 trainers"));
  ASSERT_NO_FATAL_FAILURE(wait_for_helpers_line(helper, "joined: 1 trainer"));
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(3));
  const std::uint64_t before = reached_step(dir());
  kill_first_process();
  const Outcome outcome = helper.wait();
  EXPECT_EQ(outcome.exit_code, 75) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find("the state of this machine's trainers is saved"), std::string::npos)
      << outcome.out;
  EXPECT_GE(reached_step(dir()), before);
  finish_and_compare();
}

// No coordinator can write its address to the run directory, so that none can start, not even to save.
TEST_F(TakeOver, NoCoordinatorComesUpAtAll_HelperEndsWith70AndSaysWhatToDo) {
  ASSERT_NO_FATAL_FAILURE(begin(1, {"--checkpoint-every", "5"}));
  Program helper(join({"--wait", "20s"}));
  ASSERT_NO_FATAL_FAILURE(wait_for_log("with 2 trainers"));
  ASSERT_NO_FATAL_FAILURE(wait_for_helpers_line(helper, "joined: 1 trainer"));
  const run::Layout layout(dir());
  fs::remove(layout.coordinator().path());
  fs::create_directories((layout.coordinator() / "in-the-way").path());
  kill_first_process();
  const Outcome outcome = helper.wait();
  EXPECT_EQ(outcome.exit_code, 70) << outcome.out << outcome.err;
  EXPECT_NE(outcome.err.find(
                "this rekindle join cannot replace that process: start the run again with its own command"),
            std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.out.find("the state of this machine's trainers is saved"), std::string::npos)
      << "it tried to save: " << outcome.out;
  fs::remove_all(layout.coordinator().path());
  finish_and_compare();
}

// The coordinator of a helper comes too late: another helper has taken over the run. A signal that the first
// helper received meanwhile still applies to it.
TEST_F(TakeOver, InterruptedDuringARefusedTakeOver_HelperLeavesAndTheOtherOneKeepsTheRun) {
  const fs::path bin = scratch_ / "bin", real = fs::path(rekindle()).parent_path();
  const fs::path waits = scratch_ / "waits", may_go = scratch_ / "may-go";
  fs::create_directories(bin);
  fs::copy_file(real / "rekindle", bin / "rekindle");
  // The worker uses the program of the run; the coordinator waits before it claims the run.
  std::ofstream(bin / "rekindle-control")
      << "#!/bin/sh\nif [ \"$1\" = coordinator ]; then\n  : >" << waits << "\n  while [ ! -e " << may_go
      << " ]; do sleep 0.1; done\nfi\nexec " << real / "rekindle-control"
      << " \"$@\"\n";
  fs::permissions(bin / "rekindle-control", fs::perms::owner_all);
  ASSERT_NO_FATAL_FAILURE(begin(1));
  Program late(Arguments{bin / "rekindle", "join", dir()}), other(join());
  ASSERT_NO_FATAL_FAILURE(wait_for_log("with 3 trainers"));
  for (const Program* helper : {&late, &other})
    ASSERT_NO_FATAL_FAILURE(wait_for_helpers_line(*helper, "joined: 1 trainer"));
  kill_first_process();
  ASSERT_NO_FATAL_FAILURE(wait_for_helpers_line(other, "takes its place"));
  ASSERT_TRUE(eventually([&] { return fs::exists(waits); }));
  late.signal(SIGINT);
  ASSERT_NO_FATAL_FAILURE(wait_for_helpers_line(late, "Ctrl-C: "));
  std::ofstream{may_go};
  const Outcome left = late.wait();
  EXPECT_EQ(left.exit_code, 0) << left.out << left.err;
  EXPECT_EQ(left.out.find("takes its place"), std::string::npos) << left.out;
  ASSERT_NO_FATAL_FAILURE(wait_for_steps_of_anybody(10));
  other.signal(SIGUSR1);
  const Outcome outcome = other.wait();
  EXPECT_EQ(outcome.exit_code, 75) << outcome.out << outcome.err;
  finish_and_compare();
}

// The coordinator cannot notice that its supervisor is dead. The helper waits as for a silent host. The old
// coordinator wakes up when the run has gone on, and must do no harm.
TEST_F(TakeOver, FirstProcessKilledAndItsCoordinatorSuspended_HelperGoesOnAndTheOldOneFindsItsSuccessor) {
  std::optional<Program> helper;
  ASSERT_NO_FATAL_FAILURE(begin_with(helper, {"--checkpoint-every", "20"}));
  const pid_t old = parts_of(dir(), "coordinator").at(0);
  ::kill(old, SIGSTOP);
  ASSERT_TRUE(eventually([&] { return is_suspended(old); }));
  kill_first_process();
  ASSERT_TRUE(eventually([&] { return helper->printed().find("takes its place") != std::string::npos; },
                         std::chrono::minutes(5)))
      << helper->printed();
  ASSERT_NO_FATAL_FAILURE(wait_for_steps_of_anybody(20));
  const int committed = times_logged("is committed");
  ASSERT_EQ(::kill(old, SIGCONT), 0);
  EXPECT_TRUE(eventually([&] { return command_line(old).empty(); })) << "it must end";
  ASSERT_NO_FATAL_FAILURE(wait_for_steps_of_anybody(50));
  EXPECT_GT(times_logged("is committed"), committed);
  EXPECT_FALSE(ended_in_order());
  EXPECT_EQ(run({"stop", dir()}).exit_code, 0);
  const Outcome outcome = helper->wait();
  EXPECT_EQ(outcome.exit_code, 75) << outcome.out << outcome.err;
  EXPECT_EQ(missing_steps(dir(), reached_step(dir())), std::vector<std::uint64_t>());
  finish_and_compare();
}

// The first machine disappears and cannot be reached. The helper waits until the run has been silent for
// longer than a supervisor may take to restart its coordinator.
TEST_F(TakeOver, FirstHostVanishes_HelperOnAnotherHostGoesOn) {
  if (const auto why = Network::unavailable()) REKINDLE_SKIP(Needs::kNetworks, *why);
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
