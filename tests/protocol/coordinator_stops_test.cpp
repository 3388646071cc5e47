// Stops, and the end of a run.
#include "coordinator_fixture.hpp"

namespace rekindle::protocol {
namespace {

TEST_F(CoordinatorTest, Stop_PauseCommitQuitThenExit75) {
  run_two();
  EXPECT_EQ(sent<Stop>(feed(StopRun{75, "SIGUSR1", Time(0)})).size(), 2U);
  shard(0, 12);
  pause("a", 12, PauseReason::kAgreed);
  shard(1, 12);
  EXPECT_TRUE(sent<Quit>(pause("b", 12, PauseReason::kAgreed)).empty());  // not durable yet
  EXPECT_EQ(sent<Quit>(feed(CommitDone{generation_, 12, "c", "", ""})).size(), 2U);
  EXPECT_FALSE(finish());
  exit_all();
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 75);
}

TEST_F(CoordinatorTest, StopWhoseCheckpointFails_TriedAgainAfterPausesThenReportedAsNotSaved) {
  run_two();
  feed(StopRun{75, "SIGUSR1", Time(0)});
  for (const int pause_ms : {0, 0, 1000, 5000, 15000, 30000}) {
    if (pause_ms > 0) {
      pass(Time(pause_ms - 200));
      EXPECT_EQ(machine_->phase(), Phase::kGathering) << pause_ms;
      pass(Time(400));
    }
    EXPECT_FALSE(finish());
    ASSERT_EQ(machine_->phase(), Phase::kRunning) << pause_ms;
    say(ShardFailed{machine_->generation(), "a", 12, "no space"});
    shard(1, 12);
    pause("a", 12, PauseReason::kAgreed);
    pause("b", 12, PauseReason::kAgreed);
  }
  exit_all();
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 70);
}

TEST_F(CoordinatorTest, StopWithALimitWhoseCheckpointFails_TriedAgainWithinTheLimit) {
  run_two();
  feed(StopRun{75, "SIGUSR1", Time(10000)});
  for (int tries = 0; tries < 4; ++tries) {
    ASSERT_EQ(machine_->phase(), Phase::kRunning) << tries;
    say(ShardFailed{machine_->generation(), "a", 12, "no space"});
    shard(1, 12);
    pause("a", 12, PauseReason::kAgreed);
    pause("b", 12, PauseReason::kAgreed);
    if (tries < 3) pass(Time(5200));
  }
  EXPECT_EQ(machine_->phase(), Phase::kRunning) << "15 s would be too late: at once";
}

TEST_F(CoordinatorTest, StopWithALimitInAPauseBetweenTwoTries_EndsThePause) {
  run_two();
  feed(StopRun{75, "SIGUSR1", Time(0)});
  for (const int pause_ms : {0, 0, 1200, 5200}) {
    pass(Time(pause_ms));
    ASSERT_EQ(machine_->phase(), Phase::kRunning) << pause_ms;
    say(ShardFailed{machine_->generation(), "a", 12, "no space"});
    shard(1, 12);
    pause("a", 12, PauseReason::kAgreed);
    pause("b", 12, PauseReason::kAgreed);
  }
  EXPECT_EQ(machine_->phase(), Phase::kGathering) << "for 15 s";
  feed(StopRun{75, "SIGTERM", Time(3000)});
  pass(Time(3200));
  EXPECT_EQ(machine_->phase(), Phase::kRunning);
}

TEST_F(CoordinatorTest, StopWithTooLittleTimeWhileACheckpointIsWritten_TheStepIsGivenUpAllTheSame) {
  run_two();
  say(StepDone{.generation = generation_, .step = 10, .step_ms = 5000, .trainers = 2});
  begin_shard("a", 10);
  begin_shard("b", 10);
  EXPECT_EQ(sent<Abort>(feed(StopRun{75, "SIGUSR1", Time(1000)})).size(), 2U);
}

TEST_F(CoordinatorTest, Finished_AfterTheLastCommit) {
  run_two();
  shard(0, 100);
  shard(1, 100);
  pause("a", 100, PauseReason::kFinished);
  pause("b", 100, PauseReason::kFinished);
  feed(CommitDone{generation_, 100, "c", "", ""});
  exit_all();
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 0);
}

TEST_F(CoordinatorTest, StopDuringAPauseForJoin_TheNextGenerationSavesAndEnds) {
  run_two();
  ready("c");
  say(StepDone{.generation = generation_, .step = 1, .trainers = 2});
  pass(config_.join_batch * 2);
  pause("a", 2, PauseReason::kAgreed);
  feed(StopRun{75, "SIGUSR1", Time(0)});
  const auto starts = sent<Start>(pause("b", 2, PauseReason::kAgreed));
  ASSERT_FALSE(starts.empty());
  EXPECT_TRUE(starts[0].second.stop);
  EXPECT_FALSE(starts[0].second.saved);
}

TEST_F(CoordinatorTest, StopWithTooLittleTime_TheStepInFlightIsGivenUp) {
  run_two();
  say(StepDone{.generation = generation_, .step = 6, .step_ms = 60000, .trainers = 2});
  EXPECT_EQ(sent<Abort>(feed(StopRun{75, "SIGTERM", Time(5000)})).size(), 2U);
  pause("a", 6, PauseReason::kAborted);
  const auto starts = sent<Start>(pause("b", 6, PauseReason::kAborted));
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_TRUE(starts[0].second.stop);
  EXPECT_EQ(starts[0].second.step, 6U);
}

TEST_F(CoordinatorTest, StopWithin_TheGenerationThatSavesIsNotGivenUp) {
  run_two();
  say(StepDone{.generation = generation_, .step = 6, .step_ms = 3000, .trainers = 2});
  feed(StopRun{75, "SIGTERM", Time(5000)});
  pass(Time(1000));
  say(TrainerExited{"b", true, 9});
  now_ += Time(100);
  ASSERT_EQ(sent<Start>(pause("a", 7, PauseReason::kAborted)).size(), 1U);
  EXPECT_TRUE(sent<Abort>(pass(Time(4500))).empty());
}

// The trainer has paused for the end. Its state must not be written by the next generation.
TEST_F(CoordinatorTest, StateThatChangedInMemoryAtTheEnd_IsNotWrittenOnceMore) {
  config_.expected_trainers = 1;
  config_.restorable = {{"old", 4, ""}};
  begin();
  ready("a");
  feed(StopRun{75, "SIGUSR1", Time(0)});
  begin_shard("a", 10);
  pause("a", 10, PauseReason::kAgreed);
  EXPECT_TRUE(sent<Start>(say(ShardFailed{machine_->generation(), "a", 10, "it has changed", true})).empty());
  say(TrainerExited{"a", false, 0});
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 75);
  EXPECT_NE(finish()->line.find("stopped at step 4"), std::string::npos) << finish()->line;
}

TEST_F(CoordinatorTest, SamplesThatCannotBeUsed_StateIsSavedBeforeTheRunEnds) {
  run_two();
  pause("a", 5, PauseReason::kSamplesUnusable);
  const auto starts = sent<Start>(pause("b", 5, PauseReason::kAborted));
  ASSERT_EQ(starts.size(), 2U) << "the state is written without another step";
  EXPECT_TRUE(starts[0].second.stop);
  EXPECT_EQ(starts[0].second.step, 5U);
  begin_shard("a", 5);
  begin_shard("b", 5);
  pause("a", 5, PauseReason::kAgreed);
  pause("b", 5, PauseReason::kAgreed);
  shard(0, 5);
  ASSERT_EQ(of<Commit>(shard(1, 5)).size(), 1U);
  feed(CommitDone{machine_->generation(), 5, "five", "", ""});
  exit_all();
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 78);
  EXPECT_NE(finish()->line.find("the state is saved: on host h: why"), std::string::npos) << finish()->line;
}

TEST_F(CoordinatorTest, NonFiniteLoss_EndsWithoutACommit) {
  run_two();
  pause("a", 5, PauseReason::kNonFinite);
  const auto effects = pause("b", 5, PauseReason::kNonFinite);
  EXPECT_TRUE(of<Commit>(effects).empty());
  exit_all();
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 70);
}

}  // namespace
}  // namespace rekindle::protocol
