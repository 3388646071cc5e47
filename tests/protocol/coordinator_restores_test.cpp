// A run that goes back to a checkpoint: because states are wrong, or newer ones are damaged or cannot be
// read.
#include <gmock/gmock.h>

#include "coordinator_fixture.hpp"

namespace rekindle::protocol {
namespace {

TEST_F(CoordinatorTest, StatesThatDifferInACheckpoint_NeverCommittedAndRolledBack) {
  config_.restorable = {{"old", 4, ""}};
  run_two();
  shard(0, 10, "x");
  const auto effects = shard(1, 10, "y");
  EXPECT_TRUE(of<Commit>(effects).empty());
  EXPECT_EQ(of<Abandon>(effects).size(), 1U);
  EXPECT_EQ(sent<Abort>(effects).size(), 2U);
  say(StepDone{.generation = generation_, .step = 11, .trainers = 2});  // made before the abort arrived
  pause("a", 11, PauseReason::kAborted);
  const auto starts = sent<Start>(pause("b", 11, PauseReason::kAborted));
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_EQ(starts[0].second.restore, "old");  // the states in memory must not be used
  EXPECT_TRUE(starts[0].second.sources.empty());
}

TEST_F(CoordinatorTest, CommittedStepNewerThanAnyReplica_Restored) {
  run_two();
  shard(0, 10);
  shard(1, 10);
  feed(CommitDone{generation_, 10, "ten", "", ""});
  say(TrainerExited{"b", true, 9});
  const auto starts = sent<Start>(pause("a", 0, PauseReason::kAborted, false));
  ASSERT_EQ(starts.size(), 1U);
  EXPECT_EQ(starts[0].second.restore, "ten");
}

TEST_F(CoordinatorTest, DamagedCheckpoint_SetAsideAndANewGenerationFromTheOneBefore) {
  config_.restorable = {{"new", 40, ""}, {"old", 20, ""}};
  run_two();
  const auto aborts = sent<Abort>(pause("a", 0, PauseReason::kRestoreFailed, false));
  ASSERT_EQ(aborts.size(), 1U);  // the other trainer waits in the exchange
  const auto effects = pause("b", 0, PauseReason::kAborted, false);
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
  pause("a", 0, PauseReason::kUnreadable, false);
  pause("b", 0, PauseReason::kAborted, false);
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
      state.parked =
          Paused{generation_, name, false, 0, is_a ? PauseReason::kUnreadable : PauseReason::kAborted,
                 -1,          {},   "why"};
      again.trainers.push_back(state);
    }
    feed(WorkerRegistered{again});
  }
  EXPECT_EQ(machine_->phase(), Phase::kGathering);
  EXPECT_EQ(sent<Start>(pass(Time(5000))).size(), 2U);
}

// Step 40 is being committed when a mismatch of the states of step 41 is found.
class CommitUnderWay : public CoordinatorTest {
 protected:
  void SetUp() override {
    config_.restorable = {{"old", 20, ""}};
    run_two();
    shard(0, 40);
    ASSERT_EQ(of<Commit>(shard(1, 40)).size(), 1U);
    pause("a", 41, PauseReason::kStatesDiffer);
    EXPECT_TRUE(sent<Start>(pause("b", 41, PauseReason::kAborted)).empty());
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

TEST_F(CommitUnderWay, AStopWaitsForIt) {
  feed(StopRun{75, "SIGTERM", Time(0)});
  EXPECT_FALSE(machine_->ending());
  feed(CommitDone{generation_, 40, "new", "{}", ""});
  ASSERT_TRUE(machine_->ending());
  EXPECT_THAT(machine_->ending()->line, testing::HasSubstr("step 40"));
}

TEST_F(CommitUnderWay, NeverEnds_AStopWaitsOnlyForTheGatherTime) {
  feed(StopRun{75, "SIGTERM", Time(0)});
  const auto starts = sent<Start>(pass(config_.gather_time));
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_EQ(starts[0].second.restore, "old");
  EXPECT_TRUE(starts[0].second.stop);
}

// While a generation goes back to an older checkpoint, a newer one that was still being written is committed.
TEST_F(CoordinatorTest, OlderCheckpointIsDamaged_ANewerOneIsNotSetAsideInItsPlace) {
  config_.restorable = {{"old", 20, ""}};
  run_two();
  const GenerationId writers = generation_;
  begin_shard("b", 40);
  shard(0, 40);
  pause("a", 41, PauseReason::kStatesDiffer);
  const auto back = sent<Start>(pause("b", 41, PauseReason::kAborted));
  ASSERT_EQ(back.size(), 2U);
  EXPECT_EQ(back[0].second.restore, "old");
  ASSERT_EQ(of<Commit>(say(ShardWritten{writers, "b", 40, 1, "s", "t", "d", 1})).size(), 1U);
  feed(CommitDone{writers, 40, "new", "{}", ""});
  pause("a", 0, PauseReason::kRestoreFailed, false);
  const auto effects = pause("b", 0, PauseReason::kAborted, false);
  ASSERT_EQ(of<SetAside>(effects).size(), 1U);
  EXPECT_EQ(of<SetAside>(effects)[0].checkpoint, "old");
  ASSERT_EQ(sent<Start>(effects).size(), 2U);
  EXPECT_EQ(sent<Start>(effects)[0].second.restore, "new");
}

// A checkpoint of another program or model: the checkpoint itself is intact.
TEST_F(CoordinatorTest, CheckpointThatThisProgramCannotUse_TheRunEndsWith78AndItIsNotTouched) {
  config_.restorable = {{"new", 40, ""}, {"old", 20, ""}};
  run_two();
  pause("a", 0, PauseReason::kUnsuitable, false);
  pause("b", 0, PauseReason::kAborted, false);
  exit_all();
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 78);
  EXPECT_EQ(finish()->line, "why");
  EXPECT_TRUE(of<SetAside>(all_).empty());
}

// With one trainer no replica can detect the error. Later states of this trainer must not become a
// checkpoint.
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
  const auto starts = sent<Start>(pause("a", 12, PauseReason::kAborted));
  ASSERT_EQ(starts.size(), 1U);
  EXPECT_EQ(starts[0].second.restore, "old");
  EXPECT_TRUE(sent<Abort>(say(failed)).empty()) << "reported again";
  EXPECT_TRUE(of<Commit>(say(ShardWritten{first, "a", 11, 0, "s", "t", "d", 1})).empty());
  EXPECT_EQ(of<Commit>(shard(0, 10)).size(), 1U);
}

// A shard of the first fault is written only after the second one.
TEST_F(CoordinatorTest, StateThatChangesInMemoryAgain_NothingAfterTheFirstTimeIsCommitted) {
  config_.expected_trainers = 1;
  config_.restorable = {{"old", 4, ""}};
  begin();
  ready("a");
  const GenerationId first = machine_->generation();
  say(ShardFailed{first, "a", 10, "the state has changed", true});
  begin_shard("a", 11);
  pause("a", 12, PauseReason::kAborted);
  const GenerationId second = machine_->generation();
  begin_shard("a", 20);
  say(ShardFailed{second, "a", 30, "the state has changed", true});
  EXPECT_TRUE(of<Commit>(say(ShardWritten{first, "a", 11, 0, "s", "t", "d", 1})).empty());
  EXPECT_EQ(of<Commit>(say(ShardWritten{second, "a", 20, 0, "s", "t", "d", 1})).size(), 1U);
}

// With --keep 1 --keep-best.
TEST_F(CoordinatorTest, WhatTheSweepLeft_CanBeGoneBackTo) {
  config_.job.keep = 1;
  config_.restorable = {{"best", 20, ""}, {"gone", 10, ""}};
  run_two();
  shard(0, 40);
  shard(1, 40);
  // The name of the new checkpoint may become visible late.
  feed(CommitDone{generation_, 40, "new", "{}", "", {"best"}});
  PauseReason why = PauseReason::kStatesDiffer;
  for (const char* expected : {"new", "best", ""}) {
    pause("a", 41, why, false);
    const auto starts = sent<Start>(pause("b", 41, PauseReason::kAborted, false));
    ASSERT_EQ(starts.size(), 2U);
    EXPECT_EQ(starts[0].second.restore, expected);
    why = PauseReason::kRestoreFailed;
  }
}

TEST_F(CoordinatorTest, TheLastCheckpointIsDamaged_ALoudLineBeforeTheRunBeginsAgain) {
  config_.restorable = {{"new", 40, ""}, {"old", 20, ""}};
  run_two();
  const auto damaged = [this] {
    pause("a", 0, PauseReason::kRestoreFailed, false);
    return of<Warn>(pause("b", 0, PauseReason::kAborted, false)).size();
  };
  EXPECT_EQ(damaged(), 1U);
  EXPECT_EQ(damaged(), 2U);
  EXPECT_NE(of<Warn>(all_).back().line.find("begins again with its initial values"), std::string::npos);
}

// If storage does not answer, the checkpoint itself may be intact.
TEST_F(CoordinatorTest, CheckpointThatCannotBeRead_TriedAgainThenPassedOverAndNeverSetAside) {
  config_.restorable = {{"new", 40, ""}, {"old", 20, ""}};
  run_two();
  const auto fail_to_read = [this] {
    pause("a", 0, PauseReason::kUnreadable, false);
    std::vector<Effect> effects = pause("b", 0, PauseReason::kAborted, false);
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
  pause("a", 0, PauseReason::kRestoreFailed, false);
  const auto retry = pause("b", 0, PauseReason::kAborted, false);
  EXPECT_TRUE(of<SetAside>(retry).empty());
  const auto starts = sent<Start>(retry);
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_EQ(starts[0].second.restore, "new");
  EXPECT_EQ(starts[0].first, "b");  // ranks are reversed: b reads the part that a read before
  pause("b", 0, PauseReason::kRestoreFailed, false);
  const auto second = pause("a", 0, PauseReason::kAborted, false);
  EXPECT_EQ(of<SetAside>(second).size(), 1U);
  EXPECT_EQ(sent<Start>(second).at(0).second.restore, "");  // no older checkpoint: initial values
}

TEST_F(CoordinatorTest, ReplicasDiffer_TheMinorityIsNamedAndReplacedTheSecondTime) {
  config_.expected_trainers = 3;
  config_.restorable = {{"old", 4, ""}};
  begin();
  for (const char* name : {"a", "b", "c"}) ready(name);
  for (int round = 0; round < 2; ++round) {
    for (const char* name : {"a", "b", "c"}) {
      Paused differs = paused(name, 8, PauseReason::kStatesDiffer);
      differs.differing = {1};
      say(differs);
    }
    EXPECT_EQ(machine_->step(), 4U);
  }
  EXPECT_FALSE(machine_->trainers().contains("b"));
  EXPECT_EQ(machine_->members().size(), 2U);
}

// For example a script whose schedule is not the same each time.
TEST_F(CoordinatorTest, ReplicasDifferAgainAndAgain_GivenUpUnlessAStepIsSavedMeanwhile) {
  config_.expected_trainers = 2;
  begin();
  for (const char* name : {"a", "b"}) ready(name);
  int rounds = 0;
  std::size_t quits = 0;
  for (; quits == 0 && rounds < 100; ++rounds) {
    for (const char* name : {"a", "b"})
      quits += sent<Quit>(pause(name, 8, PauseReason::kStatesDiffer)).size();
  }
  EXPECT_EQ(rounds, OddStates::kMostRollbacks);
  OddStates odd;
  for (std::uint64_t saved = 0; saved < 40; ++saved) EXPECT_FALSE(odd.without_progress(saved));
}

}  // namespace
}  // namespace rekindle::protocol
