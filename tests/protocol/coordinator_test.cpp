// The coordinator's decisions, event by event, without a process.
#include <gtest/gtest.h>

#include <csignal>

#include "base/text.hpp"
#include "protocol/coordinator.hpp"

namespace rekindle::protocol {
namespace {

class CoordinatorTest : public ::testing::Test {
 protected:
  CoordinatorTest() {
    config_.job.steps = 100;
    config_.job.leaves = 4;
    config_.job.batch_size = 8;
    config_.job.train_samples = 80;
    config_.job.test_samples = 16;
    config_.expected_trainers = 2;
    config_.term = 3;
  }

  void begin() {
    machine_.emplace(config_, now_);
    workers_.clear();
    all_.clear();
  }
  std::vector<Effect> feed(const Event& event) {
    auto effects = machine_->on(now_, event);
    all_.insert(all_.end(), effects.begin(), effects.end());
    return effects;
  }
  std::vector<Effect> say(const FromTrainer& message, const std::string& worker = "w-h") {
    return feed(TrainerSaid{worker, message});
  }
  std::vector<Effect> ready(const std::string& trainer, const std::string& fingerprint = "{}",
                            const std::string& host = "h") {
    return say(TrainerReady{trainer, host, "cpu", fingerprint, {}, 1}, enter("w-" + host, host));
  }
  // A worker without trainers registers, once.
  std::string enter(const std::string& worker, const std::string& host = "h") {
    if (workers_.insert(worker).second) feed(WorkerRegistered{{worker, host, "build", 2, {}}});
    return worker;
  }
  void run_two() {
    begin();
    ready("a");
    ready("b");
    generation_ = machine_->generation();
  }
  Parked parked(const std::string& trainer, std::uint64_t step, ParkReason reason, bool holds = true) {
    return Parked{machine_->generation(), trainer, holds, step, reason, -1, {}, "why"};
  }
  std::vector<Effect> park(const std::string& trainer, std::uint64_t step, ParkReason reason,
                           bool holds = true) {
    return say(parked(trainer, step, reason, holds), machine_->trainers().at(trainer).worker);
  }
  std::vector<Effect> shard(int rank, std::uint64_t step, const std::string& digest = "d") {
    return say(ShardWritten{machine_->generation(), rank == 0 ? "a" : "b", step, rank, "s", "t", digest, 1});
  }
  void exit_all() {
    say(TrainerExited{"a", false, 0});
    say(TrainerExited{"b", false, 0});
  }

  // Time goes by with the worker's beats and the coordinator's ticks, as it does when nothing is held up.
  std::vector<Effect> pass(Time time) {
    std::vector<Effect> effects;
    for (const Time end = now_ + time; now_ < end;) {
      now_ = std::min(now_ + Time(200), end);
      for (const std::string& worker : workers_) {
        std::vector<TrainerBeat> beats;
        for (const auto& [name, trainer] : machine_->trainers()) {
          if (trainer.worker != worker || silent_.contains(name)) continue;
          beats.push_back({name, TrainerPhase::kComputing, machine_->generation(), 0, ++progress_, -1, 0});
        }
        feed(WorkerBeatSeen{worker, beats});
      }
      const auto more = feed(Tick{});
      effects.insert(effects.end(), more.begin(), more.end());
    }
    return effects;
  }

  template <class E>
  static std::vector<E> of(const std::vector<Effect>& effects) {
    std::vector<E> found;
    for (const Effect& effect : effects) {
      if (const auto* e = std::get_if<E>(&effect)) found.push_back(*e);
    }
    return found;
  }
  template <class M>
  static std::vector<std::pair<std::string, M>> sent(const std::vector<Effect>& effects) {
    std::vector<std::pair<std::string, M>> found;
    for (const SendTrainer& send : of<SendTrainer>(effects)) {
      if (const auto* m = std::get_if<M>(&send.message)) found.emplace_back(send.trainer, *m);
    }
    return found;
  }
  std::optional<Finish> finish() const {
    const auto ends = of<Finish>(all_);
    EXPECT_LE(ends.size(), 1U);
    return ends.empty() ? std::nullopt : std::optional(ends.front());
  }

  CoordinatorConfig config_;
  std::optional<Coordinator> machine_;
  Time now_{1000};
  GenerationId generation_;
  std::set<std::string> workers_, silent_;
  std::uint64_t progress_ = 0;
  std::vector<Effect> all_;
};

TEST_F(CoordinatorTest, WaitsForAllTrainersThenStartsThemAtOneStep) {
  config_.restorable = {{"step-0000000040.t2.g1", 40, ""}};
  begin();
  EXPECT_TRUE(sent<Start>(ready("a")).empty());
  const auto starts = sent<Start>(ready("b"));
  ASSERT_EQ(starts.size(), 2U);
  for (int rank : {0, 1}) {
    EXPECT_EQ(starts[rank].second.rank, rank);
    EXPECT_EQ(starts[rank].second.step, 40U);
    EXPECT_EQ(starts[rank].second.restore, "step-0000000040.t2.g1");
    EXPECT_EQ(starts[rank].second.members.size(), 2U);
    EXPECT_EQ(starts[rank].second.generation, (GenerationId{3, 1}));
    EXPECT_TRUE(starts[rank].second.evaluate);  // step 40 ends an epoch and no evaluation is on record
  }
}

TEST_F(CoordinatorTest, GatherTimeOver_StartsWithWhoeverIsThere) {
  begin();
  ready("a");
  EXPECT_TRUE(sent<Start>(pass(config_.gather_time - Time(1))).empty());
  EXPECT_EQ(sent<Start>(pass(Time(1))).size(), 1U);
}

TEST_F(CoordinatorTest, AnotherFingerprint_Refused) {
  begin();
  ready("a", "{\"threads\":1}");
  ready("b", "{\"threads\":2}");
  exit_all();
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 78);
}

TEST_F(CoordinatorTest, CheckpointOfAnotherFingerprint_OneWarningOrRefusedWhenStrict) {
  config_.restorable = {{"c", 40, "{\"threads\":4}"}};
  begin();
  ready("a");
  const auto effects = ready("b");
  EXPECT_EQ(of<Warn>(effects).size(), 1U);
  EXPECT_EQ(sent<Start>(effects).size(), 2U);

  config_.job.strict = true;
  begin();
  ready("a");
  EXPECT_TRUE(sent<Start>(ready("b")).empty());
  exit_all();
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 78);
}

TEST_F(CoordinatorTest, MoreTrainersThanLeaves_TheRestAreSpares) {
  config_.expected_trainers = 6;
  begin();
  std::vector<Effect> last;
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) last = ready(name);
  EXPECT_EQ(sent<Start>(last).size(), 4U);
  EXPECT_EQ(of<Warn>(last).size(), 1U);
}

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
  say(StepDone{generation_, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2});  // made before they heard of it
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

TEST_F(CoordinatorTest, StopWhileForming_EndsIt) {
  begin();
  ready("a");
  EXPECT_EQ(sent<Quit>(feed(StopAsked{75, "SIGUSR1", Time(0)})).size(), 1U);
  say(TrainerExited{"a", false, 0});
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 75);
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

TEST_F(CoordinatorTest, LostTrainer_SurvivorsGoOnFromTheHighestHeldStep) {
  config_.expected_trainers = 3;
  begin();
  for (const char* name : {"a", "b", "c"}) ready(name);
  const auto aborts = sent<Abort>(say(TrainerExited{"b", true, 9}));
  ASSERT_EQ(aborts.size(), 2U);
  EXPECT_TRUE(sent<Start>(park("a", 11, ParkReason::kAborted)).empty());  // c still moves
  const auto starts = sent<Start>(park("c", 12, ParkReason::kAborted));
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_EQ(starts[0].second.generation, (GenerationId{3, 2}));
  EXPECT_EQ(starts[0].second.step, 12U);
  EXPECT_EQ(starts[0].second.sources, std::vector<int>{1});  // a copies from c
  EXPECT_FALSE(finish());
}

TEST_F(CoordinatorTest, TrainerThatHoldsNothing_IsNoSource) {
  run_two();
  say(StepDone{generation_, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2});
  park("a", 0, ParkReason::kExchangeFailed, false);  // lost its state in the middle of a copy
  const auto starts = sent<Start>(park("b", 6, ParkReason::kAborted));
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_EQ(starts[0].second.step, 6U);
  EXPECT_EQ(starts[0].second.sources, std::vector<int>{1});
}

TEST_F(CoordinatorTest, NobodyHoldsAnything_RestoredInProcess) {
  config_.restorable = {{"old", 4, ""}};
  run_two();
  park("a", 0, ParkReason::kExchangeFailed, false);
  const auto starts = sent<Start>(park("b", 0, ParkReason::kAborted, false));
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_EQ(starts[0].second.restore, "old");
  EXPECT_EQ(starts[0].second.step, 4U);
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

TEST_F(CoordinatorTest, WorkerThatWasSilentAndSpeaksAgain_HasToRegister) {
  run_two();
  for (const Time end = now_ + config_.lost_after; now_ <= end; now_ += Time(200)) feed(Tick{});
  feed(Tick{});
  EXPECT_EQ(of<AskToRegister>(feed(WorkerBeatSeen{"w-h", {}})).size(), 1U);
}

TEST_F(CoordinatorTest, AllConnectionsBreakAndComeBack_TheGenerationRunsOn) {
  run_two();
  feed(WorkerLost{"w-h", "its connection broke"});
  EXPECT_EQ(machine_->phase(), Phase::kGathering);
  Registration again{"w-h", "h", "build", 2, {}};
  Start start;
  start.generation = generation_;
  start.members = std::vector<Member>{{"a", {}}, {"b", {}}};
  for (const char* name : {"a", "b"}) {
    TrainerState state;
    state.ready = TrainerReady{name, "h", "cpu", "{}", {}, 1};
    state.started = start;
    state.started->rank = name[0] - 'a';
    again.trainers.push_back(state);
  }
  EXPECT_TRUE(of<SendTrainer>(feed(WorkerRegistered{again})).empty());
  EXPECT_EQ(machine_->phase(), Phase::kRunning);
  EXPECT_EQ(machine_->generation(), generation_);
}

TEST_F(CoordinatorTest, Newcomer_LetInAtACutAfterAStepAndNotWhileACheckpointIsWritten) {
  run_two();
  EXPECT_TRUE(sent<Cut>(ready("c")).empty());
  EXPECT_TRUE(sent<Cut>(pass(config_.join_batch * 2)).empty());  // no step has been made yet
  shard(0, 1);
  EXPECT_TRUE(sent<Cut>(say(StepDone{generation_, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2})).empty());
  shard(1, 1);
  feed(CommitDone{generation_, 1, "one", "", ""});
  const auto cuts = sent<Cut>(pass(Time(400)));
  ASSERT_EQ(cuts.size(), 2U);
  park("a", 2, ParkReason::kCut);
  const auto starts = sent<Start>(park("b", 2, ParkReason::kCut));
  ASSERT_EQ(starts.size(), 3U);
  EXPECT_EQ(starts[0].second.sources, (std::vector<int>{0, 1}));
  EXPECT_EQ(starts[2].first, "c");
}

TEST_F(CoordinatorTest, StopDuringAJoinCut_TheNextGenerationSavesAndEnds) {
  run_two();
  ready("c");
  say(StepDone{generation_, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2});
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
  say(StepDone{generation_, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 60000, 2});
  EXPECT_EQ(sent<Abort>(feed(StopAsked{75, "SIGTERM", Time(5000)})).size(), 2U);
  park("a", 6, ParkReason::kAborted);
  const auto starts = sent<Start>(park("b", 6, ParkReason::kAborted));
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_TRUE(starts[0].second.stop);
  EXPECT_EQ(starts[0].second.step, 6U);
}

TEST_F(CoordinatorTest, CrashesAtOneStep_CountedOncePerGenerationAndTheThirdEndsTheRun) {
  config_.restorable = {{"five", 5, ""}};
  run_two();
  for (int generation = 0; generation < 3; ++generation) {
    EXPECT_FALSE(finish());
    say(TrainerExited{"a", true, SIGSEGV});
    say(TrainerExited{"b", true, SIGSEGV});
    if (generation == 2) break;
    ready("a");
    ready("b");
  }
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 70);
  EXPECT_EQ(finish()->stuck_at, 5U);
}

TEST_F(CoordinatorTest, DeathsByKill_NeverCountAsCrashes) {
  run_two();
  for (int generation = 0; generation < 6; ++generation) {
    say(TrainerExited{"a", true, SIGKILL});
    park("b", 5, ParkReason::kAborted);
    ready("a");
    say(StepDone{machine_->generation(), 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2});
  }
  EXPECT_FALSE(finish());
}

TEST_F(CoordinatorTest, FewerThanTheMinimum_WaitsThenSavesAndEnds75) {
  config_.job.min_trainers = 2;
  config_.gather_time = Time(3000);
  run_two();
  say(TrainerExited{"b", true, 9});
  EXPECT_TRUE(sent<Start>(park("a", 7, ParkReason::kAborted)).empty());
  EXPECT_EQ(machine_->phase(), Phase::kGathering);
  const auto starts = sent<Start>(pass(config_.gather_time + Time(200)));
  ASSERT_EQ(starts.size(), 1U);
  EXPECT_TRUE(starts[0].second.stop);
  say(ShardWritten{machine_->generation(), "a", 7, 0, "s", "t", "d", 1});
  park("a", 7, ParkReason::kCut);
  feed(CommitDone{machine_->generation(), 7, "seven", "", ""});
  say(TrainerExited{"a", false, 0});
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 75);
}

TEST_F(CoordinatorTest, FewerThanTheMinimum_GoesOnWhenSomebodyJoins) {
  config_.job.min_trainers = 2;
  run_two();
  say(TrainerExited{"b", true, 9});
  park("a", 7, ParkReason::kAborted);
  const auto starts = sent<Start>(ready("c"));
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_EQ(starts[0].second.step, 7U);
}

// ---- adoption ----

class Adoption : public CoordinatorTest {
 protected:
  Adoption() {
    config_.restarted = true;
    start_.generation = {2, 5};
    start_.step = 10;
    start_.members = std::vector<Member>{{"a", {}}, {"b", {}}};
  }
  TrainerState state(const std::string& trainer, int rank) {
    TrainerState state;
    state.ready = TrainerReady{trainer, "h", "cpu", "{}", {}, 1};
    state.started = start_;
    state.started->rank = rank;
    return state;
  }
  std::vector<Effect> enters(const std::string& worker, const TrainerState& state) {
    workers_.insert(worker);
    return feed(WorkerRegistered{{worker, "h", "build", 1, {state}}});
  }
  Start start_;
};

// The old coordinator had told only the newcomer to start, and went; the source stands where it parked.
TEST_F(Adoption, SourceThatWasNotToldToStart_ItsStepIsNotLost) {
  for (const bool source_first : {true, false}) {
    workers_.clear();
    config_.restorable = {{"old", 4, ""}};
    start_.sources = {0};
    begin();
    TrainerState source = state("a", 0), newcomer = state("b", 1);
    source.started->generation = {2, 4};
    source.parked = Parked{{2, 4}, "a", true, 10, ParkReason::kAborted, -1, {}, ""};
    newcomer.parked = Parked{{2, 5}, "b", false, 0, ParkReason::kExchangeFailed, 0, {}, ""};
    if (source_first) enters("w1", source);
    enters("w2", newcomer);
    if (!source_first) enters("w1", source);
    pass(config_.lost_after + Time(2000));
    const auto starts = sent<Start>(all_);
    ASSERT_EQ(starts.size(), 2U) << source_first;
    EXPECT_EQ(starts[0].second.step, 10U);
    EXPECT_EQ(starts[0].second.sources, std::vector<int>{0});
    all_.clear();
  }
}

TEST_F(Adoption, TrainerThatParkedBeforeARollBack_IsNoSource) {
  config_.restorable = {{"old", 10, ""}};
  begin();
  TrainerState tainted = state("a", 0);
  tainted.started->generation = {2, 4};
  tainted.parked = Parked{{2, 4}, "a", true, 19, ParkReason::kAborted, -1, {}, ""};
  TrainerState other = state("b", 1);
  other.parked = Parked{{2, 5}, "b", true, 10, ParkReason::kAborted, -1, {}, ""};
  enters("w1", tainted);
  enters("w2", other);
  pass(config_.lost_after + Time(2000));
  const auto starts = sent<Start>(all_);
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_EQ(starts[0].second.step, 10U);
}

TEST_F(Adoption, RunningGeneration_TakenOverWithoutAWordToItsTrainers) {
  begin();
  EXPECT_TRUE(of<SendTrainer>(enters("w1", state("a", 0))).empty());
  EXPECT_EQ(machine_->phase(), Phase::kAdopting);
  EXPECT_TRUE(of<SendTrainer>(enters("w2", state("b", 1))).empty());
  EXPECT_EQ(machine_->phase(), Phase::kRunning);
  EXPECT_EQ(machine_->generation(), (GenerationId{2, 5}));
  // Its checkpoints are committed as if nothing had happened.
  say(ShardWritten{{2, 5}, "a", 20, 0, "s", "t", "d", 1}, "w1");
  EXPECT_EQ(of<Commit>(say(ShardWritten{{2, 5}, "b", 20, 1, "s", "t", "d", 1}, "w2")).size(), 1U);
}

TEST_F(Adoption, AbsentMember_WaitedForThenLost) {
  begin();
  enters("w1", state("a", 0));
  EXPECT_TRUE(sent<Abort>(pass(config_.adopt_time - Time(1000))).empty());
  EXPECT_EQ(sent<Abort>(pass(Time(1200))).size(), 1U);
  Parked parked{{2, 5}, "a", true, 17, ParkReason::kAborted, -1, {}, ""};
  const auto starts = sent<Start>(say(parked, "w1"));
  ASSERT_EQ(starts.size(), 1U);
  EXPECT_EQ(starts[0].second.generation, (GenerationId{3, 1}));
  EXPECT_EQ(starts[0].second.step, 17U);
  // The absentee comes after all: what it is in is over.
  const auto late = enters("w2", state("b", 1));
  ASSERT_EQ(of<OrderKill>(late).size(), 1U);
}

TEST_F(Adoption, StalledGeneration_TheAbsenteeIsNotWaitedForLong) {
  begin();
  TrainerState stalled = state("a", 0);
  stalled.parked = Parked{{2, 5}, "a", true, 17, ParkReason::kExchangeFailed, 1, {}, ""};
  enters("w1", stalled);
  EXPECT_EQ(sent<Start>(pass(config_.lost_after + Time(400))).size(), 1U);
}

TEST_F(Adoption, StopBeforeEverybodyRegistered_ReachesThem) {
  begin();
  enters("w1", state("a", 0));
  EXPECT_EQ(sent<Stop>(feed(StopAsked{75, "SIGUSR1", Time(0)})).size(), 1U);
  EXPECT_EQ(sent<Stop>(enters("w2", state("b", 1))).size(), 3U);  // once more does no harm
}

TEST_F(Adoption, ShardsReportedToTheOldCoordinator_Committed) {
  begin();
  TrainerState a = state("a", 0), b = state("b", 1);
  a.written = {ShardWritten{{2, 5}, "a", 20, 0, "s", "t", "d", 1}};
  b.written = {ShardWritten{{2, 5}, "b", 20, 1, "s", "t", "d", 1}};
  EXPECT_TRUE(of<Commit>(enters("w1", a)).empty());
  EXPECT_EQ(of<Commit>(enters("w2", b)).size(), 1U);
}

TEST_F(CoordinatorTest, CoordinatorThatWasSuspended_LosesNobody) {
  run_two();
  now_ += Time(3600000);
  feed(Tick{});
  now_ += Time(200);
  feed(Tick{});
  EXPECT_EQ(machine_->phase(), Phase::kRunning);
  EXPECT_EQ(machine_->trainers().size(), 2U);
}

TEST_F(CoordinatorTest, SilentWorker_LostAndTheRunWaitsForAnother) {
  run_two();
  for (const Time end = now_ + config_.lost_after; now_ <= end; now_ += Time(200)) feed(Tick{});
  feed(Tick{});
  EXPECT_TRUE(machine_->trainers().empty());
  EXPECT_EQ(machine_->phase(), Phase::kGathering);
  EXPECT_FALSE(finish());
}

TEST_F(CoordinatorTest, SilentTrainerOfALivingWorker_Killed) {
  run_two();
  silent_ = {"b"};
  const auto kills = of<OrderKill>(pass(config_.lost_after + Time(400)));
  ASSERT_EQ(kills.size(), 1U);
  EXPECT_EQ(kills[0].kill.trainer, "b");
}

TEST_F(CoordinatorTest, TrainerThatNeverParks_KilledAndTheOthersGoOn) {
  config_.expected_trainers = 3;
  begin();
  for (const char* name : {"a", "b", "c"}) ready(name);
  say(TrainerExited{"b", true, 9});
  park("a", 5, ParkReason::kAborted);
  const auto effects = pass(config_.park_deadline + Time(200));
  EXPECT_EQ(of<OrderKill>(effects).size(), 1U);
  EXPECT_EQ(sent<Start>(effects).size(), 1U);
}

TEST_F(CoordinatorTest, HangingTrainer_KilledButNotOneThatWaits) {
  run_two();
  TrainerBeat hung{"a", TrainerPhase::kComputing, generation_, 3, 7, -1, 0};
  TrainerBeat waits{"b", TrainerPhase::kExchanging, generation_, 3, 7, 0, 0};
  std::vector<OrderKill> kills;
  for (const Time end = now_ + config_.hang_after + Time(1000); now_ < end; now_ += Time(400)) {
    feed(WorkerBeatSeen{"w-h", {hung, waits}});
    for (const OrderKill& kill : of<OrderKill>(feed(Tick{}))) kills.push_back(kill);
  }
  ASSERT_EQ(kills.size(), 1U);
  EXPECT_EQ(kills[0].kill.trainer, "a");
}

TEST_F(CoordinatorTest, EverybodyWaitsForSomebody_TheirLinkIsSuspectedAndTheThirdTimeOneWorkerGoes) {
  begin();
  ready("a", "{}", "h1");
  ready("b", "{}", "h2");
  std::vector<DismissWorker> dismissed;
  std::string warned;
  for (int round = 0; round < 3; ++round) {
    const GenerationId generation = machine_->generation();
    TrainerBeat a{"a", TrainerPhase::kExchanging, generation, 3, 7, 1, 0};
    TrainerBeat b{"b", TrainerPhase::kExchanging, generation, 3, 7, 0, 0};
    bool aborted = false;
    for (const Time end = now_ + config_.stall_after * 2; now_ < end && !aborted; now_ += Time(400)) {
      feed(WorkerBeatSeen{"w-h1", {a}});
      feed(WorkerBeatSeen{"w-h2", {b}});
      const auto effects = feed(Tick{});
      aborted = !sent<Abort>(effects).empty();
      for (const DismissWorker& d : of<DismissWorker>(effects)) dismissed.push_back(d);
      for (const Warn& w : of<Warn>(effects)) warned += w.line + "\n";
    }
    ASSERT_TRUE(aborted);
    say(Parked{generation, "a", true, 3, ParkReason::kAborted, -1, {}, ""}, "w-h1");
    say(Parked{generation, "b", true, 3, ParkReason::kAborted, -1, {}, ""}, "w-h2");
  }
  ASSERT_EQ(dismissed.size(), 1U);
  EXPECT_EQ(machine_->members(), std::vector<std::string>{"a"});
  for (const char* times : {"1 of 3", "2 of 3", "3 of 3"}) {
    EXPECT_NE(warned.find(str(
                  "between worker w-h1 on h1 and worker w-h2 on h2 failed, though both are alive (", times)),
              std::string::npos)
        << warned;
  }
}

// B's last words before the cut never reach A, and B has parked.
TEST_F(CoordinatorTest, LinkGoesDarkAtACut_TheOneThatWaitsIsCalledBack) {
  begin();
  ready("a", "{}", "h1");
  ready("b", "{}", "h2");
  const GenerationId generation = machine_->generation();
  feed(StopAsked{75, "SIGUSR1", Time(0)});
  TrainerBeat a{"a", TrainerPhase::kExchanging, generation, 3, 7, 1, 0};
  TrainerBeat b{"b", TrainerPhase::kIdle, generation, 4, 9, -1, 0};
  say(Parked{generation, "b", true, 4, ParkReason::kCut, -1, {}, ""}, "w-h2");
  bool aborted = false;
  for (const Time end = now_ + config_.stall_after * 2; now_ < end && !aborted; now_ += Time(400)) {
    feed(WorkerBeatSeen{"w-h1", {a}});
    feed(WorkerBeatSeen{"w-h2", {b}});
    aborted = !sent<Abort>(feed(Tick{})).empty();
  }
  ASSERT_TRUE(aborted);
  say(Parked{generation, "a", true, 3, ParkReason::kAborted, -1, {}, ""}, "w-h1");
  pass(Time(2000));
  const auto starts = sent<Start>(all_);
  ASSERT_EQ(starts.size(), 4U);
  EXPECT_EQ(starts[3].second.step, 4U);
  EXPECT_TRUE(starts[3].second.stop);
}

TEST_F(CoordinatorTest, EverybodyWaitsButBytesMove_NobodyIsBlamed) {
  begin();
  ready("a", "{}", "h1");
  ready("b", "{}", "h2");
  TrainerBeat a{"a", TrainerPhase::kCopying, machine_->generation(), 3, 7, 1, 0};
  TrainerBeat b{"b", TrainerPhase::kCopying, machine_->generation(), 3, 7, 0, 0};
  for (const Time end = now_ + config_.stall_after * 4; now_ < end; now_ += Time(400)) {
    ++a.progress;  // a slow network: the other one's bytes arrive, now and then
    feed(WorkerBeatSeen{"w-h1", {a}});
    feed(WorkerBeatSeen{"w-h2", {b}});
    EXPECT_TRUE(sent<Abort>(feed(Tick{})).empty());
  }
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

TEST_F(CoordinatorTest, Fenced_EndsAtOnceAndOrdersNothing) {
  run_two();
  const auto effects = feed(Fenced{4});
  EXPECT_TRUE(of<SendTrainer>(effects).empty());
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 70);
  EXPECT_TRUE(of<Abandon>(feed(CommitDone{generation_, 3, "c", "", "fenced"})).empty());
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

TEST_F(CoordinatorTest, JoinerOfAnotherBuild_RefusedAndNobodyIsDisturbed) {
  run_two();
  const auto effects = ready("c", "{\"threads\":2}", "h2");
  EXPECT_EQ(of<DismissWorker>(effects).size(), 1U);
  EXPECT_FALSE(machine_->trainers().contains("c"));
  EXPECT_EQ(machine_->phase(), Phase::kRunning);
}

TEST_F(CoordinatorTest, EvaluationIsRecordedOnce) {
  run_two();
  const Evaluated evaluated{generation_, 10, 0, 16, 0.5, 0.9};
  EXPECT_EQ(of<RecordEvaluation>(say(evaluated)).size(), 1U);
  EXPECT_TRUE(of<RecordEvaluation>(say(evaluated)).empty());
}

}  // namespace
}  // namespace rekindle::protocol
