// Checkpoints, stops and the end of a run; states that are not as they should be.
#include <csignal>

#include "coordinator_fixture.hpp"

namespace rekindle::protocol {
namespace {

TEST_F(CoordinatorTest, CommitsOnlyWhenEveryShardIsIn) {
  run_two();
  EXPECT_TRUE(of<Commit>(shard(0, 10)).empty());
  EXPECT_TRUE(of<Commit>(shard(0, 10)).empty());  // the same shard again is not another one
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

TEST_F(CoordinatorTest, StatesThatDifferInACheckpoint_NeverCommittedAndRolledBack) {
  config_.restorable = {{"old", 4, ""}};
  run_two();
  shard(0, 10, "x");
  const auto effects = shard(1, 10, "y");
  EXPECT_TRUE(of<Commit>(effects).empty());
  EXPECT_EQ(of<Abandon>(effects).size(), 1U);
  EXPECT_EQ(sent<Abort>(effects).size(), 2U);
  say(StepDone{.generation = generation_, .step = 11, .trainers = 2});  // made before they heard of it
  park("a", 11, ParkReason::kAborted);
  const auto starts = sent<Start>(park("b", 11, ParkReason::kAborted));
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_EQ(starts[0].second.restore, "old");  // what they hold is not to be trusted
  EXPECT_TRUE(starts[0].second.sources.empty());
}

TEST_F(CoordinatorTest, FailedShard_GivenUpOnceEverybodyReportedAndTrainingGoesOn) {
  run_two();
  EXPECT_TRUE(of<Abandon>(say(ShardFailed{generation_, "a", 10, "no space"})).empty());
  EXPECT_EQ(of<Abandon>(shard(1, 10)).size(), 1U);
  EXPECT_EQ(machine_->phase(), Phase::kRunning);
  shard(0, 20);
  EXPECT_EQ(of<Commit>(shard(1, 20)).size(), 1U);
}

TEST_F(CoordinatorTest, Stop_CutCommitQuitThenExit75) {
  run_two();
  EXPECT_EQ(sent<Stop>(feed(StopAsked{75, "SIGUSR1", Time(0)})).size(), 2U);
  shard(0, 12);
  park("a", 12, ParkReason::kCut);
  shard(1, 12);
  EXPECT_TRUE(sent<Quit>(park("b", 12, ParkReason::kCut)).empty());  // not durable yet
  EXPECT_EQ(sent<Quit>(feed(CommitDone{generation_, 12, "c", "", ""})).size(), 2U);
  EXPECT_FALSE(finish());
  exit_all();
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 75);
}

TEST_F(CoordinatorTest, StopWhoseCheckpointFails_TriedOnceMoreThenSaysThatItIsNotSaved) {
  run_two();
  feed(StopAsked{75, "SIGUSR1", Time(0)});
  for (int tries = 0; tries < 2; ++tries) {
    EXPECT_EQ(machine_->phase(), Phase::kRunning);
    say(ShardFailed{machine_->generation(), "a", 12, "no space"});
    shard(1, 12);
    park("a", 12, ParkReason::kCut);
    park("b", 12, ParkReason::kCut);
  }
  exit_all();
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 70);
}

TEST_F(CoordinatorTest, WriterThatParkedWithoutWriting_CheckpointIsGivenUp) {
  run_two();
  shard(0, 10);
  const auto effects = park("b", 10, ParkReason::kExchangeFailed);
  EXPECT_EQ(of<Abandon>(effects).size(), 1U);
  EXPECT_EQ(sent<Start>(pass(Time(200))).size() + sent<Start>(park("a", 10, ParkReason::kAborted)).size(),
            2U);
}

TEST_F(CoordinatorTest, WriterThatParkedWhileItWrites_WaitedForWhileTheOthersGoOn) {
  run_two();
  const GenerationId first = generation_;
  begin_shard("a", 10);
  begin_shard("b", 10);
  shard(0, 10);
  EXPECT_TRUE(of<Abandon>(park("b", 10, ParkReason::kExchangeFailed)).empty());
  park("a", 10, ParkReason::kAborted);
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
  park("a", 11, ParkReason::kAborted);
  ASSERT_EQ(machine_->phase(), Phase::kRunning);
  const auto saves = sent<Save>(pass(Time(200)));
  ASSERT_EQ(saves.size(), 1U);
  EXPECT_EQ(saves[0].second.generation, machine_->generation());
  EXPECT_TRUE(sent<Save>(pass(Time(1000))).empty());  // once
}

TEST_F(CoordinatorTest, SaveWhoseGenerationBreaks_AskedOfTheNext) {
  run_two();
  begin_shard("a", 10);
  begin_shard("b", 10);
  shard(0, 10);
  say(TrainerExited{"b", true, SIGKILL});
  ready("c");
  park("a", 10, ParkReason::kAborted);
  EXPECT_EQ(sent<Save>(pass(Time(200))).size(), 2U);
  say(TrainerExited{"c", true, SIGKILL});
  park("a", 10, ParkReason::kAborted);
  EXPECT_EQ(sent<Save>(pass(Time(200))).size(), 1U);
  begin_shard("a", 11);
  EXPECT_TRUE(sent<Save>(pass(Time(1000))).empty());
}

// Its report about the first one never came: its worker keeps the last one alone.
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
  EXPECT_TRUE(of<OrderKill>(pass(config_.hang_after)).empty());
  const auto kills = of<OrderKill>(pass(Time(400)));
  ASSERT_EQ(kills.size(), 1U);
  EXPECT_EQ(kills[0].kill.trainer, "b");
}

TEST_F(CoordinatorTest, StopWithTooLittleTimeWhileACheckpointIsWritten_TheStepIsGivenUpAllTheSame) {
  run_two();
  say(StepDone{.generation = generation_, .step = 10, .step_ms = 5000, .trainers = 2});
  begin_shard("a", 10);
  begin_shard("b", 10);
  EXPECT_EQ(sent<Abort>(feed(StopAsked{75, "SIGUSR1", Time(1000)})).size(), 2U);
}

TEST_F(CoordinatorTest, Finished_AfterTheLastCommit) {
  run_two();
  shard(0, 100);
  shard(1, 100);
  park("a", 100, ParkReason::kFinished);
  park("b", 100, ParkReason::kFinished);
  feed(CommitDone{generation_, 100, "c", "", ""});
  exit_all();
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 0);
}

TEST_F(CoordinatorTest, CommittedStepAheadOfWhatIsHeld_Restored) {
  run_two();
  shard(0, 10);
  shard(1, 10);
  feed(CommitDone{generation_, 10, "ten", "", ""});
  say(TrainerExited{"b", true, 9});
  const auto starts = sent<Start>(park("a", 0, ParkReason::kAborted, false));
  ASSERT_EQ(starts.size(), 1U);
  EXPECT_EQ(starts[0].second.restore, "ten");
}

TEST_F(CoordinatorTest, LostWriter_CheckpointAbandonedAndTheRestGoesOn) {
  run_two();
  shard(0, 10);
  const auto effects = say(TrainerExited{"b", true, 9});
  EXPECT_EQ(of<Abandon>(effects).size(), 1U);
  EXPECT_EQ(sent<Start>(park("a", 10, ParkReason::kAborted)).size(), 1U);
}

TEST_F(CoordinatorTest, WriterThatReportedAndDied_CheckpointOutlivesIt) {
  run_two();
  shard(1, 10);
  EXPECT_TRUE(of<Abandon>(say(TrainerExited{"b", true, 9})).empty());
  EXPECT_EQ(of<Commit>(shard(0, 10)).size(), 1U);
}

TEST_F(CoordinatorTest, StopDuringAJoinCut_TheNextGenerationSavesAndEnds) {
  run_two();
  ready("c");
  say(StepDone{.generation = generation_, .step = 1, .trainers = 2});
  pass(config_.join_batch * 2);
  park("a", 2, ParkReason::kCut);
  feed(StopAsked{75, "SIGUSR1", Time(0)});
  const auto starts = sent<Start>(park("b", 2, ParkReason::kCut));
  ASSERT_FALSE(starts.empty());
  EXPECT_TRUE(starts[0].second.stop);
  EXPECT_FALSE(starts[0].second.saved);
}

TEST_F(CoordinatorTest, StopWithTooLittleTime_TheStepInFlightIsGivenUp) {
  run_two();
  say(StepDone{.generation = generation_, .step = 6, .step_ms = 60000, .trainers = 2});
  EXPECT_EQ(sent<Abort>(feed(StopAsked{75, "SIGTERM", Time(5000)})).size(), 2U);
  park("a", 6, ParkReason::kAborted);
  const auto starts = sent<Start>(park("b", 6, ParkReason::kAborted));
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_TRUE(starts[0].second.stop);
  EXPECT_EQ(starts[0].second.step, 6U);
}

TEST_F(CoordinatorTest, DamagedCheckpoint_SetAsideAndANewGenerationFromTheOneBefore) {
  config_.restorable = {{"new", 40, ""}, {"old", 20, ""}};
  run_two();
  const auto aborts = sent<Abort>(park("a", 0, ParkReason::kRestoreFailed, false));
  ASSERT_EQ(aborts.size(), 1U);  // the other one waits in the exchange
  const auto effects = park("b", 0, ParkReason::kAborted, false);
  ASSERT_EQ(of<SetAside>(effects).size(), 1U);
  EXPECT_EQ(of<SetAside>(effects)[0].checkpoint, "new");
  const auto starts = sent<Start>(effects);
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_EQ(starts[0].second.restore, "old");
  EXPECT_EQ(starts[0].second.generation, (GenerationId{3, 2}));
}

TEST_F(CoordinatorTest, WorkerThatReconnectsWhileACheckpointCannotBeRead_IsNoFurtherTry) {
  config_.restorable = {{"only", 40, ""}};
  run_two();
  park("a", 0, ParkReason::kUnreadable, false);
  park("b", 0, ParkReason::kAborted, false);
  Start start;
  start.generation = generation_;
  start.step = 40;
  start.restore = "only";
  start.members = std::vector<Member>{{"a", {}}, {"b", {}}};
  for (int i = 0; i < 6; ++i) {
    feed(WorkerLost{"w-h", "its connection broke"});
    Registration again{"w-h", "h", "build", 2, {}};
    for (const char* name : {"a", "b"}) {
      const bool is_a = name[0] == 'a';
      TrainerState state;
      state.ready = TrainerReady{name, "h", "cpu", "{}", {}, 1};
      state.started = start;
      state.started->rank = is_a ? 0 : 1;
      state.parked = Parked{
          generation_, name, false, 0, is_a ? ParkReason::kUnreadable : ParkReason::kAborted, -1, {}, "why"};
      again.trainers.push_back(state);
    }
    feed(WorkerRegistered{again});
  }
  EXPECT_EQ(machine_->phase(), Phase::kGathering);
  EXPECT_EQ(sent<Start>(pass(Time(5000))).size(), 2U);
}

TEST_F(CoordinatorTest, TheLastWordOfACommit_TheGenerationThatItLetsBeginIsNotAborted) {
  run_two();
  shard(0, 10);
  park("a", 10, ParkReason::kCut);
  Parked late = parked("b", 9, ParkReason::kExchangeFailed);
  late.peer = 0;
  const auto effects = say(late);
  ASSERT_EQ(sent<Start>(effects).size(), 2U);
  EXPECT_TRUE(sent<Abort>(effects).empty());
}

TEST_F(CoordinatorTest, StopWithin_TheGenerationThatSavesIsNotGivenUp) {
  run_two();
  say(StepDone{.generation = generation_, .step = 6, .step_ms = 3000, .trainers = 2});
  feed(StopAsked{75, "SIGTERM", Time(5000)});
  pass(Time(1000));
  say(TrainerExited{"b", true, 9});
  now_ += Time(100);
  ASSERT_EQ(sent<Start>(park("a", 7, ParkReason::kAborted)).size(), 1U);
  EXPECT_TRUE(sent<Abort>(pass(Time(4500))).empty());
}

// Step 40 is being committed when the states of step 41 are found unlike.
class CommitUnderWay : public CoordinatorTest {
 protected:
  void SetUp() override {
    config_.restorable = {{"old", 20, ""}};
    run_two();
    shard(0, 40);
    ASSERT_EQ(of<Commit>(shard(1, 40)).size(), 1U);
    park("a", 41, ParkReason::kStatesDiffer);
    EXPECT_TRUE(sent<Start>(park("b", 41, ParkReason::kAborted)).empty());
  }
};

TEST_F(CommitUnderWay, IsWaitedFor) {
  const auto starts = sent<Start>(feed(CommitDone{generation_, 40, "new", "{}", ""}));
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_EQ(starts[0].second.restore, "new");
}

TEST_F(CommitUnderWay, Fails_TheOlderCheckpointIsUsed) {
  const auto starts = sent<Start>(feed(CommitDone{generation_, 40, "", "", "no space"}));
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_EQ(starts[0].second.restore, "old");
}

// While a generation goes back to an older checkpoint, one that was still being written is committed.
TEST_F(CoordinatorTest, OlderCheckpointIsDamaged_ANewerOneIsNotSetAsideInItsPlace) {
  config_.restorable = {{"old", 20, ""}};
  run_two();
  const GenerationId writers = generation_;
  begin_shard("b", 40);
  shard(0, 40);
  park("a", 41, ParkReason::kStatesDiffer);
  const auto back = sent<Start>(park("b", 41, ParkReason::kAborted));
  ASSERT_EQ(back.size(), 2U);
  EXPECT_EQ(back[0].second.restore, "old");
  ASSERT_EQ(of<Commit>(say(ShardWritten{writers, "b", 40, 1, "s", "t", "d", 1})).size(), 1U);
  feed(CommitDone{writers, 40, "new", "{}", ""});
  park("a", 0, ParkReason::kRestoreFailed, false);
  const auto effects = park("b", 0, ParkReason::kAborted, false);
  ASSERT_EQ(of<SetAside>(effects).size(), 1U);
  EXPECT_EQ(of<SetAside>(effects)[0].checkpoint, "old");
  ASSERT_EQ(sent<Start>(effects).size(), 2U);
  EXPECT_EQ(sent<Start>(effects)[0].second.restore, "new");
}

// Another program's checkpoint, or another model's: nothing is wrong with it.
TEST_F(CoordinatorTest, CheckpointThatThisProgramCannotUse_TheRunEndsWith78AndItIsNotTouched) {
  config_.restorable = {{"new", 40, ""}, {"old", 20, ""}};
  run_two();
  park("a", 0, ParkReason::kUnsuitable, false);
  park("b", 0, ParkReason::kAborted, false);
  exit_all();
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 78);
  EXPECT_EQ(finish()->line, "why");
  EXPECT_TRUE(of<SetAside>(all_).empty());
}

// With one trainer nobody else could tell: what it made of that state must not become a checkpoint.
TEST_F(CoordinatorTest, StateThatChangedInMemory_TheRunGoesBackAndNothingLaterIsCommitted) {
  config_.expected_trainers = 1;
  config_.restorable = {{"old", 4, ""}};
  begin();
  ready("a");
  const GenerationId first = machine_->generation();
  begin_shard("a", 10);
  const ShardFailed failed{first, "a", 10, "the state has changed", true};
  EXPECT_EQ(sent<Abort>(say(failed)).size(), 1U);
  begin_shard("a", 11);
  EXPECT_TRUE(of<Commit>(shard(0, 11)).empty());
  const auto starts = sent<Start>(park("a", 12, ParkReason::kAborted));
  ASSERT_EQ(starts.size(), 1U);
  EXPECT_EQ(starts[0].second.restore, "old");
  EXPECT_TRUE(sent<Abort>(say(failed)).empty()) << "told again";
  EXPECT_TRUE(of<Commit>(say(ShardWritten{first, "a", 11, 0, "s", "t", "d", 1})).empty());
  EXPECT_EQ(of<Commit>(shard(0, 10)).size(), 1U);
}

// The trainer has parked for the end: what it holds must not be written by the next generation.
TEST_F(CoordinatorTest, StateThatChangedInMemoryAtTheEnd_IsNotWrittenOnceMore) {
  config_.expected_trainers = 1;
  config_.restorable = {{"old", 4, ""}};
  begin();
  ready("a");
  feed(StopAsked{75, "SIGUSR1", Time(0)});
  begin_shard("a", 10);
  park("a", 10, ParkReason::kCut);
  EXPECT_TRUE(sent<Start>(say(ShardFailed{machine_->generation(), "a", 10, "it has changed", true})).empty());
  say(TrainerExited{"a", false, 0});
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 75);
  EXPECT_NE(finish()->line.find("stopped at step 4"), std::string::npos) << finish()->line;
}

// Trainers that live shorter than --checkpoint-interval would never see it over.
TEST_F(CoordinatorTest, Start_TellsHowLongNoCheckpointHasBegun) {
  run_two();
  pass(Time(3000));
  say(TrainerExited{"b", true, SIGKILL});
  const auto second = sent<Start>(park("a", 5, ParkReason::kAborted));
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

// A commit looks at sizes alone: the one that was read, every byte of it, must not go for its sake.
TEST_F(CoordinatorTest, CheckpointThatTheRunWentOnFrom_SparedUntilANewerOneHasBeenRead) {
  config_.restorable = {{"old", 20, ""}};
  run_two();
  say(StepDone{.generation = generation_, .step = 21, .trainers = 2});
  shard(0, 40);
  const auto first = of<Commit>(shard(1, 40));
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].spared.front(), "old");
  feed(CommitDone{generation_, 40, "new", "{}", "", {"new", "old"}});
  // All is lost: the new one is read, and right.
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
  EXPECT_EQ(write(50).at(0).spared, (std::vector<std::string>{"old", "new"})) << "who knows yet";
  say(StepDone{.generation = machine_->generation(), .step = 51, .trainers = 1});
  EXPECT_EQ(write(60).at(0).spared.front(), "new");
}

// With --keep 1 --keep-best.
TEST_F(CoordinatorTest, WhatTheSweepLeft_CanBeGoneBackTo) {
  config_.job.keep = 1;
  config_.restorable = {{"best", 20, ""}, {"gone", 10, ""}};
  run_two();
  shard(0, 40);
  shard(1, 40);
  feed(CommitDone{generation_, 40, "new", "{}", "", {"best"}});  // its own name may be seen late
  ParkReason why = ParkReason::kStatesDiffer;
  for (const char* expected : {"new", "best", ""}) {
    park("a", 41, why, false);
    const auto starts = sent<Start>(park("b", 41, ParkReason::kAborted, false));
    ASSERT_EQ(starts.size(), 2U);
    EXPECT_EQ(starts[0].second.restore, expected);
    why = ParkReason::kRestoreFailed;
  }
}

TEST_F(CoordinatorTest, TheLastCheckpointIsDamaged_ALoudLineBeforeTheRunBeginsAgain) {
  config_.restorable = {{"new", 40, ""}, {"old", 20, ""}};
  run_two();
  const auto damaged = [this] {
    park("a", 0, ParkReason::kRestoreFailed, false);
    return of<Warn>(park("b", 0, ParkReason::kAborted, false)).size();
  };
  EXPECT_EQ(damaged(), 1U);
  EXPECT_EQ(damaged(), 2U);
  EXPECT_NE(of<Warn>(all_).back().line.find("begins again with its initial values"), std::string::npos);
}

// Storage that is away says nothing of what is on it.
TEST_F(CoordinatorTest, CheckpointThatCannotBeRead_TriedAgainThenPassedOverAndNeverSetAside) {
  config_.restorable = {{"new", 40, ""}, {"old", 20, ""}};
  run_two();
  const auto fail_to_read = [this] {
    park("a", 0, ParkReason::kUnreadable, false);
    std::vector<Effect> effects = park("b", 0, ParkReason::kAborted, false);
    const auto later = pass(Time(40000));
    effects.insert(effects.end(), later.begin(), later.end());
    return sent<Start>(effects);
  };
  for (const char* expected : {"new", "new", "new", "new", "new", "old", "old", "old", "old", "old", "old"}) {
    const auto starts = fail_to_read();
    ASSERT_EQ(starts.size(), 2U) << expected;
    EXPECT_EQ(starts[0].second.restore, expected);
  }
  EXPECT_TRUE(fail_to_read().empty());
  exit_all();
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 70);
  EXPECT_TRUE(of<SetAside>(all_).empty());
}

TEST_F(CoordinatorTest, RestoreFailsOnOneNode_AnotherNodeTriesBeforeTheCheckpointIsCondemned) {
  config_.restorable = {{"new", 40, ""}};
  begin();
  ready("a", "{}", "h1");
  ready("b", "{}", "h2");
  park("a", 0, ParkReason::kRestoreFailed, false);
  const auto retry = park("b", 0, ParkReason::kAborted, false);
  EXPECT_TRUE(of<SetAside>(retry).empty());
  const auto starts = sent<Start>(retry);
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_EQ(starts[0].second.restore, "new");
  EXPECT_EQ(starts[0].first, "b");  // ranks are dealt the other way round: b reads what a read
  park("b", 0, ParkReason::kRestoreFailed, false);
  const auto second = park("a", 0, ParkReason::kAborted, false);
  EXPECT_EQ(of<SetAside>(second).size(), 1U);
  EXPECT_EQ(sent<Start>(second).at(0).second.restore, "");  // nothing older: from initial values
}

TEST_F(CoordinatorTest, NonFiniteLoss_EndsWithoutACommit) {
  run_two();
  park("a", 5, ParkReason::kNonFinite);
  const auto effects = park("b", 5, ParkReason::kNonFinite);
  EXPECT_TRUE(of<Commit>(effects).empty());
  exit_all();
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 70);
}

TEST_F(CoordinatorTest, ReplicasDiffer_TheMinorityIsNamedAndReplacedTheSecondTime) {
  config_.expected_trainers = 3;
  config_.restorable = {{"old", 4, ""}};
  begin();
  for (const char* name : {"a", "b", "c"}) ready(name);
  for (int round = 0; round < 2; ++round) {
    for (const char* name : {"a", "b", "c"}) {
      Parked differs = parked(name, 8, ParkReason::kStatesDiffer);
      differs.differing = {1};
      say(differs);
    }
    EXPECT_EQ(machine_->step(), 4U);
  }
  EXPECT_FALSE(machine_->trainers().contains("b"));
  EXPECT_EQ(machine_->members().size(), 2U);
}

TEST_F(CoordinatorTest, EvaluationIsRecordedOnce) {
  run_two();
  const Evaluated evaluated{generation_, 10, 0, 16, 0.5, 0.9};
  EXPECT_EQ(of<RecordEvaluation>(say(evaluated)).size(), 1U);
  EXPECT_TRUE(of<RecordEvaluation>(say(evaluated)).empty());
}

}  // namespace
}  // namespace rekindle::protocol
