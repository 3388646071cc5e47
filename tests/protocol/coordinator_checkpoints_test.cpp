// Checkpoints that the trainers write: when they are committed, given up, pinned, or asked for again.
#include <csignal>

#include "coordinator_fixture.hpp"

namespace rekindle::protocol {
namespace {

TEST_F(CoordinatorTest, CommitsOnlyWhenEveryShardIsIn) {
  run_two();
  EXPECT_TRUE(of<Commit>(shard(0, 10)).empty());
  EXPECT_TRUE(of<Commit>(shard(0, 10)).empty());  // the same shard counts only once
  const auto commits = of<Commit>(shard(1, 10));
  ASSERT_EQ(commits.size(), 1U);
  EXPECT_EQ(commits[0].shards.size(), 2U);
}

TEST_F(CoordinatorTest, ShardOfAnOlderGenerationOrTerm_Ignored) {
  run_two();
  for (const GenerationId old : {GenerationId{3, 0}, GenerationId{2, 1}, GenerationId{3, 2}}) {
    say(ShardWritten{old, "a", 10, 0, "s", "t", "d", 1});
    EXPECT_TRUE(of<Commit>(say(ShardWritten{old, "b", 10, 1, "s", "t", "d", 1})).empty());
  }
}

TEST_F(CoordinatorTest, FailedShard_GivenUpOnceEverybodyReportedAndTrainingGoesOn) {
  run_two();
  EXPECT_TRUE(of<Abandon>(say(ShardFailed{generation_, "a", 10, "no space"})).empty());
  EXPECT_EQ(of<Abandon>(shard(1, 10)).size(), 1U);
  EXPECT_EQ(machine_->phase(), Phase::kRunning);
  shard(0, 20);
  EXPECT_EQ(of<Commit>(shard(1, 20)).size(), 1U);
}

TEST_F(CoordinatorTest, WriterThatPausedWithoutWriting_CheckpointIsGivenUp) {
  run_two();
  shard(0, 10);
  const auto effects = pause("b", 10, PauseReason::kExchangeFailed);
  EXPECT_EQ(of<Abandon>(effects).size(), 1U);
  pause("a", 10, PauseReason::kAborted);
  EXPECT_EQ(sent<Start>(pass(config_.link_pause)).size(), 2U);
}

TEST_F(CoordinatorTest, WriterThatPausedWhileItWrites_WaitedForWhileTheOthersGoOn) {
  run_two();
  const GenerationId first = generation_;
  begin_shard("a", 10);
  begin_shard("b", 10);
  shard(0, 10);
  EXPECT_TRUE(of<Abandon>(pause("b", 10, PauseReason::kExchangeFailed)).empty());
  pause("a", 10, PauseReason::kAborted);
  pass(config_.link_pause);
  ASSERT_EQ(machine_->phase(), Phase::kRunning);
  ASSERT_GT(machine_->generation(), first);
  const auto effects = say(ShardWritten{first, "b", 10, 1, "s", "t", "d", 1});
  ASSERT_EQ(of<Commit>(effects).size(), 1U);
  EXPECT_EQ(of<Commit>(effects)[0].generation, first);
}

TEST_F(CoordinatorTest, LostWriter_TheNextGenerationSavesAtOnce) {
  run_two();
  begin_shard("a", 10);
  begin_shard("b", 10);
  shard(0, 10);
  EXPECT_EQ(of<Abandon>(say(TrainerExited{"b", true, SIGKILL})).size(), 1U);
  pause("a", 11, PauseReason::kAborted);
  ASSERT_EQ(machine_->phase(), Phase::kRunning);
  const auto saves = sent<Save>(pass(Time(200)));
  ASSERT_EQ(saves.size(), 1U);
  EXPECT_EQ(saves[0].second.generation, machine_->generation());
  EXPECT_TRUE(sent<Save>(pass(Time(1000))).empty());  // only once
}

TEST_F(CoordinatorTest, SaveWhoseGenerationBreaks_AskedOfTheNext) {
  run_two();
  begin_shard("a", 10);
  begin_shard("b", 10);
  shard(0, 10);
  say(TrainerExited{"b", true, SIGKILL});
  ready("c");
  pause("a", 10, PauseReason::kAborted);
  EXPECT_EQ(sent<Save>(pass(Time(200))).size(), 2U);
  say(TrainerExited{"c", true, SIGKILL});
  pause("a", 10, PauseReason::kAborted);
  EXPECT_EQ(sent<Save>(pass(Time(200))).size(), 1U);
  begin_shard("a", 11);
  EXPECT_TRUE(sent<Save>(pass(Time(1000))).empty());
}

// The report about the first shard never arrived: the worker keeps only the last one.
TEST_F(CoordinatorTest, WriterThatBeganALaterOne_DoesNotHoldTheEarlierOpen) {
  run_two();
  shard(0, 10);
  EXPECT_TRUE(of<Abandon>(all_).empty());
  begin_shard("b", 20);
  ASSERT_EQ(of<Abandon>(all_).size(), 1U);
  EXPECT_EQ(of<Abandon>(all_)[0].step, 10U);
}

TEST_F(CoordinatorTest, WriterThatNeverFinishes_Killed) {
  run_two();
  begin_shard("a", 10);
  begin_shard("b", 10);
  shard(0, 10);
  EXPECT_TRUE(of<KillTrainer>(pass(config_.hang_after)).empty());
  const auto kills = of<KillTrainer>(pass(Time(400)));
  ASSERT_EQ(kills.size(), 1U);
  EXPECT_EQ(kills[0].trainer, "b");
}

// When the first shard is written, its trainer has the state, and the others are not waited for in an outage.
TEST_F(CoordinatorTest, WriterOnSlowStorage_KilledWhenItsBlocksAreNoLongerWritten) {
  run_two();
  begin_shard("a", 10);
  begin_shard("b", 10);
  shard(0, 10);
  const Time half = config_.hang_after / 2;
  for (int i = 0; i < 6; ++i) {
    ++blocks_written_;
    EXPECT_TRUE(of<KillTrainer>(pass(half)).empty());
  }
  EXPECT_TRUE(of<KillTrainer>(pass(half)).empty());
  const auto kills = of<KillTrainer>(pass(Time(800)));
  ASSERT_EQ(kills.size(), 1U);
  EXPECT_EQ(kills[0].trainer, "b");
  EXPECT_EQ(kills[0].why, "no block of its shard was written for 600 s");
}

TEST_F(CoordinatorTest, WriterThatComesToNoEnd_KilledAfterSixTimesAsLong) {
  run_two();
  begin_shard("a", 10);
  begin_shard("b", 10);
  shard(0, 10);
  const Time half = config_.hang_after / 2, began = now_;
  std::vector<KillTrainer> kills;
  while (kills.empty() && now_ - began < config_.hang_after * 8) {
    ++blocks_written_;
    kills = of<KillTrainer>(pass(half));
  }
  ASSERT_FALSE(kills.empty());
  EXPECT_EQ(kills[0].why, "it has been writing its shard for 3600 s");
  EXPECT_GE(now_ - began, config_.hang_after * 6);
}

// An outage of the shared storage: the state would be lost with its writers, and nothing would be mended.
TEST_F(CoordinatorTest, AllWritersStuck_WaitedForSixTimesAsLong) {
  run_two();
  begin_shard("a", 10);
  pass(Time(400));
  begin_shard("b", 10);
  const auto effects = pass(config_.hang_after * 5);
  EXPECT_TRUE(of<KillTrainer>(effects).empty());
  const auto warnings = of<Warn>(effects);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].line.find("does the storage answer?"), std::string::npos) << warnings[0].line;
  shard(0, 10);
  EXPECT_EQ(of<Commit>(shard(1, 10)).size(), 1U) << "the storage answers again";
  begin_shard("a", 20);
  begin_shard("b", 20);
  EXPECT_EQ(of<KillTrainer>(pass(config_.hang_after * 6 + Time(400))).size(), 2U);
}

TEST_F(CoordinatorTest, StuckWriters_KilledWhenAnotherTrainerHasTheState) {
  run_two();
  begin_shard("a", 10);
  begin_shard("b", 10);
  EXPECT_TRUE(of<KillTrainer>(pass(config_.hang_after * 2)).empty());
  shard(0, 10);
  const auto kills = of<KillTrainer>(pass(Time(400)));
  ASSERT_EQ(kills.size(), 1U);
  EXPECT_EQ(kills[0].trainer, "b");
}

TEST_F(CoordinatorTest, LostWriter_CheckpointAbandonedAndTheRestGoesOn) {
  run_two();
  shard(0, 10);
  const auto effects = say(TrainerExited{"b", true, 9});
  EXPECT_EQ(of<Abandon>(effects).size(), 1U);
  EXPECT_EQ(sent<Start>(pause("a", 10, PauseReason::kAborted)).size(), 1U);
}

TEST_F(CoordinatorTest, WriterThatReportedAndDied_CheckpointOutlivesIt) {
  run_two();
  shard(1, 10);
  EXPECT_TRUE(of<Abandon>(say(TrainerExited{"b", true, 9})).empty());
  EXPECT_EQ(of<Commit>(shard(0, 10)).size(), 1U);
}

TEST_F(CoordinatorTest, TheLastMessageOfACommit_TheGenerationThatItLetsBeginIsNotAborted) {
  run_two();
  shard(0, 10);
  pause("a", 10, PauseReason::kAgreed);
  Paused late = paused("b", 9, PauseReason::kExchangeFailed);
  late.peer = 0;
  EXPECT_TRUE(sent<Start>(say(late)).empty()) << "the link may be broken: there is a pause";
  const auto effects = pass(config_.link_pause);
  ASSERT_EQ(sent<Start>(effects).size(), 2U);
  EXPECT_TRUE(sent<Abort>(effects).empty());
}

// Trainers that run for less than --checkpoint-interval would never write a checkpoint.
TEST_F(CoordinatorTest, Start_HasTheTimeSinceTheLastCheckpointBegan) {
  run_two();
  pass(Time(3000));
  say(TrainerExited{"b", true, SIGKILL});
  const auto second = sent<Start>(pause("a", 5, PauseReason::kAborted));
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].second.unsaved_ms, 3000U);
  begin_shard("a", 6);
  pass(Time(200));
  ready("c");
  say(TrainerExited{"a", true, SIGKILL});
  pass(config_.regroup_time);
  ASSERT_FALSE(sent<Start>(all_).empty());
  EXPECT_LT(sent<Start>(all_).back().second.unsaved_ms, 3000U);
}

// A commit checks only file sizes. The checkpoint that was read completely must not be removed for a new one.
TEST_F(CoordinatorTest, CheckpointThatTheRunWentOnFrom_PinnedUntilANewerOneHasBeenRead) {
  config_.restorable = {{"old", 20, ""}};
  run_two();
  say(StepDone{.generation = generation_, .step = 21, .trainers = 2});
  shard(0, 40);
  const auto first = of<Commit>(shard(1, 40));
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].pinned.front(), "old");
  feed(CommitDone{generation_, 40, "new", "{}", "", {"new", "old"}});
  // All trainers are lost. The new checkpoint is read completely, and is correct.
  ready("c");
  for (const char* name : {"a", "b"}) say(TrainerExited{name, true, SIGKILL});
  pass(config_.regroup_time);
  const auto starts = sent<Start>(all_);
  ASSERT_EQ(starts.back().second.restore, "new");
  EXPECT_EQ(starts.back().second.verified, "old");
  begin_shard("c", 50);
  const auto write = [this](std::uint64_t step) {
    return of<Commit>(say(ShardWritten{machine_->generation(), "c", step, 0, "s", "t", "d", 1}));
  };
  EXPECT_EQ(write(50).at(0).pinned, (std::vector<std::string>{"old", "new"})) << "not verified yet";
  say(StepDone{.generation = machine_->generation(), .step = 51, .trainers = 1});
  EXPECT_EQ(write(60).at(0).pinned.front(), "new");
}

TEST_F(CoordinatorTest, EvaluationIsRecordedOnce) {
  run_two();
  const Evaluated evaluated{generation_, 10, 0, 16, 0.5, {{"accuracy", 0.9}, {"perplexity", 7.25}}};
  const auto effects = say(evaluated);
  EXPECT_EQ(of<RecordEvaluation>(effects).size(), 1U);
  ASSERT_EQ(of<Info>(effects).size(), 1U);
  EXPECT_EQ(of<Info>(effects)[0].line,
            "after epoch 1 (step 10): test loss 0.5, accuracy 90 %, perplexity 7.25 (of 16)");
  EXPECT_TRUE(of<RecordEvaluation>(say(evaluated)).empty());
}

}  // namespace
}  // namespace rekindle::protocol
