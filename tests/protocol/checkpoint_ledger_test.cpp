// Each part of the checkpoint ledger by itself.
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
  EXPECT_EQ(committed.newest()->checkpoint, "again") << "of two checkpoints of one step, the last one";
  committed.remove("again");
  committed.remove("c");
  EXPECT_EQ(committed.newest()->checkpoint, "late");
  EXPECT_TRUE(committed.has_step(10));
  EXPECT_FALSE(committed.has_step(30));
}

TEST(CommittedCheckpoints, WhatASweepDidNotLeave_IsForgotten) {
  CommittedCheckpoints committed({{"c", 30, ""}, {"b", 20, ""}, {"a", 10, ""}});
  committed.keep({}, "");
  EXPECT_EQ(committed.count(), 3U) << "an empty list means unknown";
  committed.keep({"a"}, "c");
  EXPECT_EQ(committed.count(), 2U);
  EXPECT_NE(committed.find("c"), nullptr) << "named in `besides`";
  EXPECT_EQ(committed.find("b"), nullptr);
}

TEST(OpenCheckpoint, IsCompleteAndEqual_WhenAllWritersReportTheSame) {
  OpenCheckpoint open;
  open.writers = {"a", "b"};
  EXPECT_TRUE(open.equal());
  open.written[0] = {{}, "a", 5, 0, "s0", "", "digest", 1};
  EXPECT_FALSE(open.complete());
  open.written[1] = {{}, "b", 5, 1, "s1", "", "digest", 1};
  EXPECT_TRUE(open.complete() && open.equal());
  open.written[1].digest = "other";
  EXPECT_FALSE(open.equal());
}

TEST(OpenCheckpoints, AreFoundByStepAndGeneration) {
  OpenCheckpoints open;
  const GenerationId first{1, 1}, second{1, 2};
  open.all[{10, first}].committing = true;
  open.all[{20, second}].pauses = true;
  EXPECT_NE(open.find({10, first}), nullptr);
  EXPECT_EQ(open.find({10, second}), nullptr);
  EXPECT_TRUE(open.any_of_step(20));
  EXPECT_TRUE(open.any_committing_beyond(9));
  EXPECT_FALSE(open.any_committing_beyond(10)) << "that of step 20 is not being committed";
  EXPECT_TRUE(open.any_older_than(second));
  EXPECT_FALSE(open.any_older_than(first));
  EXPECT_TRUE(open.any_that_pauses());
}

TEST(FailedCheckpoints, AfterFivePausesItIsGivenUp_UnlessOneWasWritten) {
  FailedCheckpoints failed;
  EXPECT_EQ(failed.pause(5), Time(0));
  for (const int pause_ms : {0, 1000, 5000, 15000, 30000}) {
    failed.failed(5, "full");
    EXPECT_FALSE(failed.given_up(5));
    EXPECT_EQ(failed.pause(5), Time(pause_ms));
  }
  failed.failed(5, "away");
  EXPECT_EQ(failed.given_up(5), "away");
  failed.written(5);
  EXPECT_FALSE(failed.given_up(5));
}

TEST(SuspectStates, OfAGeneration_ForbidsItsLaterStepsAndThoseOfOlderOnes) {
  SuspectStates suspect;
  const GenerationId old{1, 1}, suspected{1, 2}, next{1, 3};
  EXPECT_FALSE(suspect.must_restore() || suspect.covers(old));
  suspect.raise(suspected, 7);
  EXPECT_TRUE(suspect.must_restore());
  EXPECT_TRUE(suspect.forbids({8, old}) && suspect.forbids({8, suspected}));
  EXPECT_FALSE(suspect.forbids({7, suspected}) || suspect.forbids({8, next}));
  suspect.narrow(suspected, 5);
  suspect.narrow(suspected, 6);
  EXPECT_TRUE(suspect.forbids({6, suspected}));
  suspect.step_made(suspected);
  EXPECT_TRUE(suspect.must_restore()) << "the trainers had not received the abort yet";
  suspect.step_made(next);
  EXPECT_FALSE(suspect.must_restore());
  EXPECT_TRUE(suspect.forbids({6, suspected})) << "late shards of that generation stay forbidden";
  suspect.raise(next, 30);
  EXPECT_TRUE(suspect.forbids({6, suspected})) << "also after another fault";
  EXPECT_TRUE(suspect.forbids({31, next}) && !suspect.forbids({30, next}));
  suspect.narrow(suspected, 2);
  EXPECT_TRUE(suspect.forbids({3, old}) && !suspect.forbids({30, next})) << "newer ones keep their limit";
  suspect.check();
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
  EXPECT_EQ(tries.try_again(), Time(1000)) << "the previous checkpoint has its own tries";
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
  EXPECT_FALSE(tries.went_on()) << "the previous coordinator has reported it";
}

TEST(CheckpointLedger, BrokenInvariant_IsFound) {
  CheckpointLedger ledger{.committed = CommittedCheckpoints({{"b", 9, ""}, {"a", 5, ""}}),
                          .open = {},
                          .failed = {},
                          .suspect = {},
                          .restore = {}};
  OpenCheckpoint& open = ledger.open.all[{12, {1, 1}}];
  open.writers = {"x", "y"};
  EXPECT_TRUE(open.is_writer(1, "y"));
  for (const int rank : {-1, 0, 2}) EXPECT_FALSE(open.is_writer(rank, "y")) << rank;
  open.written[0] = {};
  EXPECT_NO_THROW(ledger.check());
  open.committing = true;
  EXPECT_THROW(ledger.check(), std::logic_error) << "a shard is missing";
  open.written[1] = {};
  EXPECT_NO_THROW(ledger.check());
  open.written[2] = {};
  EXPECT_THROW(ledger.check(), std::logic_error) << "there is no such rank";
  ledger.open.all.clear();
  EXPECT_NO_THROW(ledger.check());
  ledger.committed = CommittedCheckpoints({{"a", 5, ""}, {"b", 9, ""}});
  EXPECT_THROW(ledger.check(), std::logic_error) << "not the newest first";
}

}  // namespace
}  // namespace rekindle::protocol
