// Helpers that do not take over: the first process lives, the run has ended, or another helper has it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "../needs.hpp"
#include "base/files.hpp"
#include "base/process.hpp"
#include "run/layout.hpp"
#include "run/terms.hpp"
#include "run/trust.hpp"
#include "take_over_fixture.hpp"

namespace rekindle::process_test {
namespace {

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

// The worker of the helper receives no more messages, as with a broken link.
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

// A Slurm job has lost its batch host. A process on one of its nodes has taken over the run and saves. A
// third node asks Slurm before the save is over, and the answer of Slurm has not changed.
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
  const std::uint64_t inode = run::inode_of(run::Layout(dir())).value();
  Program second(on_node("n3") +
                 Arguments{rekindle(), "slurm-successor", dir(), std::to_string(inode), job.dump()});
  ASSERT_TRUE(eventually([&] { return parts_of(dir(), "coordinator").size() == 2; }));
  // The first successor is silent. It is on a node that Slurm has not given up, so it gets the usual time for
  // a sign of life, and not the 2 s of a batch script on a lost node.
  ASSERT_NO_FATAL_FAILURE(wait_for_log("for a sign of life before taking over"));
  EXPECT_TRUE(logged("waiting 30s for a sign of life before taking over")) << log();
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

}  // namespace
}  // namespace rekindle::process_test
