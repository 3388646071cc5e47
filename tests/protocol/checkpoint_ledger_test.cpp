// What is known of checkpoints: each part of the ledger by itself.
#include "protocol/checkpoint_ledger.hpp"

#include <gtest/gtest.h>

namespace rekindle::protocol {
namespace {

TEST(CommittedCheckpoints, TheNewestIsFirst_WhateverOrderTheyCameIn) {
  CommittedCheckpoints committed({{"b", 20, ""}, {"a", 10, ""}});
  committed.add({"c", 30, ""});
  EXPECT_EQ(committed.newest()->checkpoint, "c");
  committed.add({"late", 25, ""});
  EXPECT_EQ(committed.newest()->checkpoint, "c");
  committed.add({"again", 30, ""});
  EXPECT_EQ(committed.newest()->checkpoint, "again") << "of one step, the last one";
  committed.remove("again");
  committed.remove("c");
  EXPECT_EQ(committed.newest()->checkpoint, "late");
  EXPECT_TRUE(committed.has_step(10));
  EXPECT_FALSE(committed.has_step(30));
}

TEST(CommittedCheckpoints, WhatASweepDidNotLeave_IsForgotten) {
  CommittedCheckpoints committed({{"c", 30, ""}, {"b", 20, ""}, {"a", 10, ""}});
  committed.keep({}, "");
  EXPECT_EQ(committed.count(), 3U) << "it does not know";
  committed.keep({"a"}, "c");
  EXPECT_EQ(committed.count(), 2U);
  EXPECT_NE(committed.find("c"), nullptr) << "named besides";
  EXPECT_EQ(committed.find("b"), nullptr);
}

TEST(OpenCheckpoint, IsWholeAndAlike_WhenAllWritersSayTheSame) {
  OpenCheckpoint open;
  open.writers = {"a", "b"};
  EXPECT_TRUE(open.alike());
  open.written[0] = {{}, "a", 5, 0, "s0", "", "digest", 1};
  EXPECT_FALSE(open.whole());
  open.written[1] = {{}, "b", 5, 1, "s1", "", "digest", 1};
  EXPECT_TRUE(open.whole() && open.alike());
  open.written[1].digest = "other";
  EXPECT_FALSE(open.alike());
}

TEST(OpenCheckpoints, AreFoundByStepAndGeneration) {
  OpenCheckpoints open;
  const GenerationId first{1, 1}, second{1, 2};
  open.all[{10, first}].committing = true;
  open.all[{20, second}].parks = true;
  EXPECT_NE(open.find({10, first}), nullptr);
  EXPECT_EQ(open.find({10, second}), nullptr);
  EXPECT_TRUE(open.any_of_step(20));
  EXPECT_TRUE(open.any_committing_beyond(9));
  EXPECT_FALSE(open.any_committing_beyond(10)) << "that of step 20 is not being committed";
  EXPECT_TRUE(open.any_older_than(second));
  EXPECT_FALSE(open.any_older_than(first));
  EXPECT_TRUE(open.any_that_parks());
}

TEST(FailedCheckpoints, TwoTriesAreGivenUp_UnlessOneWasWritten) {
  FailedCheckpoints failed;
  failed.failed(5, "full");
  EXPECT_FALSE(failed.given_up(5));
  failed.failed(5, "away");
  EXPECT_EQ(failed.given_up(5), "away");
  failed.written(5);
  EXPECT_FALSE(failed.given_up(5));
}

TEST(Doubt, OfAGeneration_ForbidsItsLaterStepsAndThoseOfOlderOnes) {
  Doubt doubt;
  const GenerationId old{1, 1}, doubted{1, 2}, next{1, 3};
  EXPECT_FALSE(doubt.must_restore() || doubt.covers(old));
  doubt.raise(doubted, 7);
  EXPECT_TRUE(doubt.must_restore());
  EXPECT_TRUE(doubt.forbids({8, old}) && doubt.forbids({8, doubted}));
  EXPECT_FALSE(doubt.forbids({7, doubted}) || doubt.forbids({8, next}));
  doubt.narrow(5);
  doubt.narrow(6);
  EXPECT_TRUE(doubt.forbids({6, doubted}));
  doubt.step_made(doubted);
  EXPECT_TRUE(doubt.must_restore()) << "it had not heard of it";
  doubt.step_made(next);
  EXPECT_FALSE(doubt.must_restore());
  EXPECT_TRUE(doubt.forbids({6, doubted})) << "late shards of it stay forbidden";
}

TEST(RestoreTries, ADamagedCheckpoint_IsTriedOnceByOtherNodes) {
  RestoreTries tries;
  tries.begin("c");
  EXPECT_FALSE(tries.let_others_try(1)) << "there is one host only";
  EXPECT_TRUE(tries.let_others_try(2));
  EXPECT_TRUE(tries.others_try());
  EXPECT_FALSE(tries.let_others_try(2));
  tries.begin("b");
  EXPECT_TRUE(tries.let_others_try(2)) << "another checkpoint has its own tries";
}

TEST(RestoreTries, StorageThatIsAway_IsTriedFiveTimesEverMoreSlowly) {
  RestoreTries tries;
  tries.begin("c");
  for (const int seconds : {1, 2, 4, 8, 16}) EXPECT_EQ(tries.try_again(), Time(1000 * seconds));
  EXPECT_EQ(tries.try_again(), std::nullopt);
  EXPECT_EQ(tries.try_again(), Time(1000)) << "the one before has its own tries";
}

TEST(RestoreTries, AFailureIsNews_OncePerGeneration) {
  RestoreTries tries;
  EXPECT_TRUE(tries.failed_in({1, 1}));
  EXPECT_FALSE(tries.failed_in({1, 1}));
  EXPECT_TRUE(tries.failed_in({1, 2}));
}

TEST(RestoreTries, GoingOn_VerifiesWhatWasRestoredOnce) {
  RestoreTries tries;
  EXPECT_FALSE(tries.went_on()) << "from initial values";
  tries.begin("c");
  EXPECT_TRUE(tries.went_on());
  EXPECT_FALSE(tries.went_on());
  EXPECT_EQ(tries.verified(), "c");
  tries.take_over("d", "d");
  EXPECT_FALSE(tries.went_on()) << "the coordinator before has said so";
}

}  // namespace
}  // namespace rekindle::protocol
