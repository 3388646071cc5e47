// What follows from a listing of the checkpoints. retention_test.cpp has the same with real files.
#include "checkpoint/listing.hpp"

#include <gtest/gtest.h>

namespace rekindle::checkpoint {
namespace {

using Ids = std::vector<CheckpointId>;

TEST(SweepList, KeepsTheNewestOnesAndThePinned) {
  const SweepList list =
      sweep_list({{{40, 1, 1}, true}, {{30, 1, 1}, true}, {{20, 1, 1}, true}, {{10, 1, 1}, true}},
                 {.newest = {40, 1, 1}, .keep = 2, .pinned = {{10, 1, 1}}});
  EXPECT_EQ(list.kept, (Ids{{40, 1, 1}, {30, 1, 1}, {10, 1, 1}}));
  EXPECT_EQ(list.old, (Ids{{20, 1, 1}}));
}

TEST(SweepList, UncommittedCheckpointThatMayStillBeWritten_Stays) {
  const SweepList list =
      sweep_list({{{40, 1, 1}, false}, {{30, 2, 1}, true}, {{30, 1, 1}, false}, {{20, 2, 1}, false}},
                 {.newest = {30, 2, 1}});
  EXPECT_EQ(list.old, (Ids{{30, 1, 1}, {20, 2, 1}}));
}

// Another host committed it, and its manifest cannot be seen here yet.
TEST(SweepAfterRestore, NotedCheckpointLooksUncommitted_Stays) {
  const std::vector<Listed> seen = {{{40, 1, 1}, false}, {{30, 1, 1}, true}};
  EXPECT_EQ(sweep_list(seen, plan_after_restore({30, 1, 1}, {0, 2, 1}, {})).old, (Ids{{40, 1, 1}}));
  EXPECT_EQ(sweep_list(seen, plan_after_restore({30, 1, 1}, {0, 2, 1}, CheckpointId{40, 1, 1})).old, Ids{});
}

TEST(NotedCheckpoint, IsMissingUntilItOrANewerOneIsSeenOrItWasSetAside) {
  const CheckpointId noted{40, 1, 1};
  EXPECT_TRUE(is_missing(noted, {}, false));
  EXPECT_TRUE(is_missing(noted, {{30, 1, 1}}, false));
  EXPECT_FALSE(is_missing(noted, {{40, 1, 1}, {30, 1, 1}}, false));
  EXPECT_FALSE(is_missing(noted, {{50, 2, 1}}, false));
  EXPECT_FALSE(is_missing(noted, {{30, 1, 1}}, true));
}

TEST(Abandon, CommittedOrNotedCheckpoint_Stays) {
  const CheckpointId id{68, 1, 1}, other{66, 1, 1};
  EXPECT_TRUE(may_abandon(id, false, std::nullopt));
  EXPECT_TRUE(may_abandon(id, false, other));
  EXPECT_FALSE(may_abandon(id, true, other));
  EXPECT_FALSE(may_abandon(id, false, id)) << "its manifest may be seen late";
}

}  // namespace
}  // namespace rekindle::checkpoint
