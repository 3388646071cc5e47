// A run whose first process dies: a helper (`rekindle join`) takes its place, and no step is lost.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "../needs.hpp"
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

// No coordinator can write down where it listens, so that none comes up, not even to save.
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
  EXPECT_NE(outcome.err.find("this helper cannot take its place: start the run again with its own command"),
            std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.out.find("what this machine's trainers hold is saved"), std::string::npos)
      << "it tried to save: " << outcome.out;
  fs::remove_all(layout.coordinator().path());
  finish_and_compare();
}

// A helper's coordinator comes too late: another helper has taken the run over. What was asked of the helper
// meanwhile is still asked of it.
TEST_F(TakeOver, InterruptedDuringARefusedTakeOver_HelperLeavesAndTheOtherOneKeepsTheRun) {
  const fs::path bin = scratch_ / "bin", real = fs::path(rekindle()).parent_path();
  const fs::path waits = scratch_ / "waits", may_go = scratch_ / "may-go";
  fs::create_directories(bin);
  fs::copy_file(real / "rekindle", bin / "rekindle");
  // The worker's program is the run's own; the coordinator waits before it claims the run.
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

// A helper in a Slurm job that would have to requeue itself.
TEST_F(TakeOver, JoinInASlurmJobWithoutScontrol_IsWarned) {
  ASSERT_EQ(run(mnist_run(dir(), 1, 3)).exit_code, 0);
  const Outcome outcome =
      Program({"/usr/bin/env", "SLURM_JOB_ID=77", "PATH=/nowhere", rekindle(), "join", dir()}).wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(
      outcome.out.find("warning: scontrol is not on PATH (/nowhere); scontrol is needed to requeue this "
                       "job: "),
      std::string::npos)
      << outcome.out;
}

// A Slurm job has lost its batch host, and a process on one of its nodes has taken the run over and saves.
// Slurm is asked from a third node before the save is over, and its answer is still the same.
TEST_F(TakeOver, SecondSuccessorOfABatchHost_LeavesTheRunToTheFirst) {
  if (::geteuid() != 0) REKINDLE_SKIP(Needs::kRoot, "only root can give a process another host name");
  const fs::path bin = scratch_ / "bin", calls = scratch_ / "calls";
  fs::create_directories(bin);
  std::ofstream(bin / "scontrol") << R"(#!/bin/sh
case "$2" in
  job) printf 'JobId=7 JobName=a\n   UserId=root(0)\n   JobState=RUNNING Reason=None Dependency=(null)\n'
       printf '   Requeue=1 Restarts=0 ExitCode=0:0\n   NodeList=n[2-3]\n   BatchHost=n1\n' ;;
  hostnames) printf 'n2\nn3\n' ;;
  *) echo "$@" >>)" << calls << " ;;\nesac\n";
  fs::permissions(bin / "scontrol", fs::perms::owner_all);
  fs::copy_file(bin / "scontrol", bin / "scancel");
  const auto on_node = [&](const std::string& node) {
    return Arguments{"/usr/bin/env", "SLURM_JOB_ID=7", "SLURMD_NODENAME=" + node,
                     "PATH=" + bin.string() + ":/bin:/usr/bin"};
  };
  const Arguments other_host{
      "/usr/bin/unshare", "--uts", "/bin/sh", "-c", "hostname n2-host && exec \"$@\"", "sh"};
  ASSERT_NO_FATAL_FAILURE(begin(1, {}, on_node("n2") + other_host));
  const std::uint64_t term = run::newest_term(run::Layout(dir()))->value().term;
  const nlohmann::json job = {
      {"job", "7"}, {"batch_host", "n1"}, {"nodes", {"n1", "n2", "n3"}}, {"restarts", 0}};
  const std::vector<pid_t> first = parts_of(dir(), "coordinator");
  ASSERT_EQ(first.size(), 1U);
  ::kill(first[0], SIGSTOP);
  Program second(on_node("n3") + Arguments{rekindle(), "slurm-successor", dir(), job.dump()});
  ASSERT_TRUE(eventually([&] { return parts_of(dir(), "coordinator").size() == 2; }));
  ::sleep(6);  // The first one is silent for longer than a batch script on a lost node is waited for.
  ::kill(first[0], SIGCONT);
  constexpr int kNotNeeded = 3;
  const Outcome outcome = second.wait();
  EXPECT_EQ(outcome.exit_code, kNotNeeded) << outcome.out << outcome.err;
  EXPECT_EQ(run::newest_term(run::Layout(dir()))->value().term, term);
  EXPECT_FALSE(fs::exists(calls)) << "the job was requeued or cancelled: " << read_text(calls).value_or("");
  EXPECT_EQ(run({"stop", dir()}).exit_code, 0);
  const Outcome outcome_of_first = program_->wait();
  EXPECT_EQ(outcome_of_first.exit_code, 75) << outcome_of_first.out << outcome_of_first.err;
}

// The first machine vanishes: nothing on it can say so, nor be asked. The helper waits until the run has been
// silent for longer than a supervisor may pause before it starts its coordinator again.
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
