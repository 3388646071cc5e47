// Exchanges that fail: because a peer died, or although both ends live.
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

}  // namespace
}  // namespace rekindle::protocol
