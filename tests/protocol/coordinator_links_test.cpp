// Exchanges that fail: because a peer died, or although both ends live.
#include <gmock/gmock.h>

#include <csignal>

#include "coordinator_fixture.hpp"

namespace rekindle::protocol {
namespace {

// A peer often notices a death before the dead trainer's worker reports it.
TEST_F(CoordinatorTest, PeerReportsTheDeathFirst_NextGenerationAtOnce) {
  run_two();
  Paused seen = paused("b", 6, PauseReason::kExchangeFailed);
  seen.peer = 0;
  EXPECT_TRUE(sent<Start>(say(seen)).empty());
  const auto starts = sent<Start>(say(TrainerExited{"a", true, SIGKILL}));
  ASSERT_EQ(starts.size(), 1U);
  EXPECT_EQ(starts[0].first, "b");
}

TEST_F(CoordinatorTest, LinkFailsAndBothAreAlive_APauseFirst) {
  run_two();
  Paused seen = paused("b", 6, PauseReason::kExchangeFailed);
  seen.peer = 0;
  say(seen);
  EXPECT_TRUE(sent<Start>(pause("a", 6, PauseReason::kAborted)).empty());
  EXPECT_EQ(sent<Start>(pass(config_.link_pause)).size(), 2U);
}

// Two trainers of one worker: there is no other worker to go on with.
TEST_F(CoordinatorTest, TrainersOfOneWorkerCannotExchangeData_TheRunGivesUpAfterFiveTriesAtAStep) {
  run_two();
  int tries = 0;
  for (; !machine_->ending() && tries < 10; ++tries) {
    Paused seen = paused("b", 6, PauseReason::kExchangeFailed);
    seen.peer = 0;
    say(seen);
    const auto warned = of<Warn>(pause("a", 6, PauseReason::kAborted));
    ASSERT_FALSE(warned.empty());
    EXPECT_THAT(warned[0].line, testing::HasSubstr("cannot exchange data"));
    if (!machine_->ending()) {
      ASSERT_EQ(sent<Start>(pass(config_.link_pause)).size(), 2U) << tries;
    }
  }
  EXPECT_EQ(tries, 6);  // the first one was before step 6 was known
  ASSERT_TRUE(machine_->ending());
  EXPECT_EQ(machine_->ending()->exit_code, 70);
  EXPECT_THAT(machine_->ending()->line, testing::HasSubstr("an exchange fails again and again at step 6"));
}

}  // namespace
}  // namespace rekindle::protocol
