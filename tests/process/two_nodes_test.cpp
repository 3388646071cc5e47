// One run directory on network storage, seen by two nodes. CTest runs these tests under network_disk
// (tests/network_disk), which creates the storage and one view of it for each node.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

#include "../needs.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "live_run.hpp"
#include "run/layout.hpp"

namespace rekindle::process_test {
namespace {

constexpr int kSteps = 200, kAttempts = 4;

class TwoNodes : public LiveRun {
 protected:
  void SetUp() override {
    const char* nodes = std::getenv("REKINDLE_TEST_NODES");
    const std::string both(nodes == nullptr ? "" : nodes);
    const auto colon = both.find(':');
    if (colon == std::string::npos) REKINDLE_SKIP(Needs::kSetup, "needs network_disk --nodes 2");
    home_ = both.substr(0, colon);
    away_ = both.substr(colon + 1);
  }

  // The run directory, as the other node sees it.
  fs::path dir_from_away() const { return away_ / fs::relative(dir(), home_); }

  // The beginning of the command line of a program that runs on the other node.
  static Arguments on_away() {
    return {"/usr/bin/unshare", "--uts", "/bin/sh", "-c", "hostname away && exec \"$@\"", "sh"};
  }

  // Runs several attempts, each ended by `signal`, alternating between the two nodes without a pause.
  void take_turns(int signal, const Arguments& more) {
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const bool at_home = attempt % 2 == 0;
      const fs::path here = at_home ? dir() : dir_from_away();
      Program program((at_home ? Arguments() : on_away()) + Arguments{rekindle()} +
                      mnist_run(here, 2, kSteps) + more);
      const auto enough = std::uint64_t{kSteps} / (kAttempts + 2) * static_cast<std::uint64_t>(attempt + 1);
      ASSERT_TRUE(eventually([&] { return reached_step(here) >= enough || !program.running(); }));
      program.signal(signal);
      const Outcome outcome = program.wait();
      const int expected = signal == SIGKILL ? 128 + SIGKILL : 75;
      ASSERT_EQ(outcome.exit_code, expected) << "attempt " << attempt << ": " << outcome.out << outcome.err;
    }
    const Outcome last = run(mnist_run(dir(), 3, kSteps));
    ASSERT_EQ(last.exit_code, 0) << last.err;
    EXPECT_EQ(times_logged("starts from initial values"), 1) << log();
    EXPECT_EQ(times_logged("resumes from step"), kAttempts) << log();
    EXPECT_EQ(digest_of(dir()), quiet_digest(kSteps));
  }

  fs::path home_, away_;
};

TEST_F(TwoNodes, StoppedAndResumedOnTheOther_SameBits) { take_turns(SIGUSR1, {}); }

TEST_F(TwoNodes, KilledAndResumedOnTheOther_SameBits) { take_turns(SIGKILL, {"--checkpoint-every", "7"}); }

// Slurm reports that the previous attempt is over: the next one does not wait until the files of the previous
// one are visible.
TEST_F(TwoNodes, RequeuedOnTheOtherAtOnce_GoesOnFromTheNewestCheckpoint) {
  const auto attempt = [&](const fs::path& here, const char* restarts, std::uint64_t steps) {
    return Arguments{"/usr/bin/env", "SLURM_JOB_ID=77", str("SLURM_RESTART_COUNT=", restarts), rekindle()} +
           mnist_run(here, 2, static_cast<int>(steps)) + Arguments{"--checkpoint-every", "7"};
  };
  {
    Program first(attempt(dir(), "0", 100000));
    ASSERT_TRUE(eventually([&] { return reached_step(dir()) >= 50 || !first.running(); }));
    first.signal(SIGKILL);
    EXPECT_EQ(first.wait().exit_code, 128 + SIGKILL);
    ASSERT_TRUE(eventually([&] { return processes_with(dir()).empty(); }));
  }
  // The attempt may have died between its last commit and the note about it.
  const std::string noted = *read_text(run::Layout(dir()).newest_checkpoint());
  const auto committed = checkpoint::list_committed(dir());
  ASSERT_FALSE(committed.empty());
  const Outcome second = Program(on_away() + attempt(dir_from_away(), "1", reached_step(dir()) + 10)).wait();
  EXPECT_EQ(second.exit_code, 0) << second.err;
  const std::string log = read_text(run::Layout(dir_from_away()).log("coordinator")).value_or("");
  const auto went_on_from = [&log](const std::string& name) {
    return log.find(str("(checkpoints/", name, ")")) != std::string::npos;
  };
  EXPECT_TRUE(went_on_from(noted.substr(0, noted.find('\n'))) ||
              went_on_from(committed.front().directory_name()))
      << noted << log;
}

TEST_F(TwoNodes, JoinedFromTheOtherAndTheCoordinatorKilled_SameBits) {
  ASSERT_NO_FATAL_FAILURE(begin(1, {"--checkpoint-every", "20"}));
  Program guest(on_away() + Arguments{rekindle(), "join", dir_from_away(), "--workers", "2"});
  wait_for_log("with 3 trainers");
  const auto coordinators = parts_of(dir(), "coordinator");
  ASSERT_EQ(coordinators.size(), 1U);
  ::kill(coordinators.front(), SIGKILL);
  wait_for_steps(60);
  stop_and_compare();
  EXPECT_EQ(guest.wait().exit_code, 0);  // the helper has the same exit code as the run
}

}  // namespace
}  // namespace rekindle::process_test
