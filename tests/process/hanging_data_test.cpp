// Image files on storage that hangs: every call waits for a server that does not answer, as on NFS mounted
// hard. The run directory is elsewhere. Needs network_disk (tests/network_disk), which is this process's
// parent.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "../needs.hpp"
#include "base/text.hpp"
#include "live_run.hpp"

namespace rekindle::process_test {
namespace {

class HangingData : public LiveRun {
 protected:
  void SetUp() override {
    const char* nodes = std::getenv("REKINDLE_TEST_NODES");
    if (nodes == nullptr) REKINDLE_SKIP(Needs::kSetup, "needs network_disk");
    images_ = fs::path(nodes) / "images";
    const Outcome made = run({"make-data", "image-folder", images_, "--samples", "60"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }
  void TearDown() override {
    answer();
    LiveRun::TearDown();
  }
  Arguments arguments(const fs::path& dir, int workers, std::uint64_t steps) const {
    return {"local",
            "--run-dir",
            dir,
            "--workers",
            str(workers),
            "--steps",
            str(steps),
            "--model",
            "resnet18",
            "--image-size",
            "32",
            "--batch-size",
            "8",
            "--dataset",
            "image-folder",
            "--data",
            images_,
            "--micro-batches",
            "4",
            "--checkpoint-interval",
            "1h"};
  }
  void start(const Arguments& more = {}) {
    program_.emplace(Arguments{rekindle()} + arguments(dir(), 2, 1000000) + more);
    wait_for_step(2);
  }
  void has_the_bits_of_a_quiet_run() {
    answer();
    const std::uint64_t steps = reached_step(dir()) + 2;
    const Outcome finished = run(arguments(dir(), 1, steps));
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    EXPECT_TRUE(missing_steps(dir(), steps).empty());
    EXPECT_EQ(run(arguments(scratch_ / "quiet", 1, steps)).exit_code, 0);
    EXPECT_EQ(digest_of(dir()), digest_of(scratch_ / "quiet"));
  }
  static void hang() { ::kill(::getppid(), SIGSTOP); }
  static void answer() { ::kill(::getppid(), SIGCONT); }

  fs::path images_;
};

TEST_F(HangingData, ForAWhile_NoTrainerEndsAndNoStepIsLost) {
  ASSERT_NO_FATAL_FAILURE(start({"--hang-after", "10s"}));
  hang();
  wait_for_log("cannot read its samples now and tries again");
  answer();
  ASSERT_NO_FATAL_FAILURE(wait_for_steps(3));
  EXPECT_EQ(run({"stop", dir()}).exit_code, 0);
  EXPECT_EQ(program_->wait().exit_code, 75);
  EXPECT_EQ(log().find("was lost"), std::string::npos) << log();
  has_the_bits_of_a_quiet_run();
}

TEST_F(HangingData, AStopMeanwhile_SavesTheStepThatWasReached) {
  ASSERT_NO_FATAL_FAILURE(start());
  hang();
  wait_for_log("cannot read its samples now and tries again");
  const std::uint64_t reached = reached_step(dir());
  EXPECT_EQ(run({"stop", dir()}).exit_code, 0);
  const Outcome stopped = program_->wait();
  EXPECT_EQ(stopped.exit_code, 75) << stopped.err;
  EXPECT_NE(stopped.out.find(str("stopped at step ", reached, " of")), std::string::npos) << stopped.out;
  has_the_bits_of_a_quiet_run();
}

// As at a time limit: whoever waits for a peer is asked to pause as well.
TEST_F(HangingData, LongerThanTheWait_TheStateIsSaved) {
  ASSERT_NO_FATAL_FAILURE(start({"--data-wait", "8s"}));
  hang();
  const Outcome ended = program_->wait();
  EXPECT_EQ(ended.exit_code, 75) << ended.out << ended.err;
  EXPECT_NE(ended.out.find("are not read yet (tried for 8 s)"), std::string::npos) << ended.out;
  has_the_bits_of_a_quiet_run();
}

}  // namespace
}  // namespace rekindle::process_test
