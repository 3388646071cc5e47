// The coordinator's decisions, event by event, without a process.
#include <gtest/gtest.h>

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

  void begin() { machine_.emplace(config_, now_); }
  std::vector<Effect> feed(const Event& event) {
    auto effects = machine_->on(now_, event);
    all_.insert(all_.end(), effects.begin(), effects.end());
    return effects;
  }
  std::vector<Effect> say(const FromTrainer& message, const std::string& worker = "w") {
    return feed(TrainerSaid{worker, message});
  }
  std::vector<Effect> ready(const std::string& trainer, const std::string& fingerprint = "{}",
                            const std::string& host = "h") {
    feed(WorkerJoined{"w", host});
    return say(TrainerReady{trainer, host, "cpu", fingerprint, {}, 1});
  }
  void run_two() {
    begin();
    ready("a");
    ready("b");
    generation_ = machine_->generation();
  }
  std::vector<Effect> park(const std::string& trainer, std::uint64_t step, ParkReason reason,
                           bool holds = true) {
    return say(Parked{machine_->generation(), trainer, holds, step, reason, -1, "why"});
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
      feed(WorkerBeatSeen{"w"});
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

TEST_F(CoordinatorTest, StatesThatDiffer_NeverCommitted) {
  run_two();
  shard(0, 10, "x");
  EXPECT_TRUE(of<Commit>(shard(1, 10, "y")).empty());
  park("a", 10, ParkReason::kAborted);
  park("b", 10, ParkReason::kAborted);
  exit_all();
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 70);
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
  EXPECT_EQ(sent<Stop>(feed(StopAsked{75, "SIGUSR1"})).size(), 2U);
  shard(0, 12);
  park("a", 12, ParkReason::kCut);
  park("b", 12, ParkReason::kCut);
  EXPECT_TRUE(sent<Quit>(shard(1, 12)).empty());  // not durable yet
  EXPECT_EQ(sent<Quit>(feed(CommitDone{generation_, 12, "c", ""})).size(), 2U);
  EXPECT_FALSE(finish());
  exit_all();
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 75);
}

TEST_F(CoordinatorTest, StopWhoseCheckpointFails_SaysThatItIsNotSaved) {
  run_two();
  feed(StopAsked{75, "SIGUSR1"});
  say(ShardFailed{generation_, "a", 12, "no space"});
  shard(1, 12);
  park("a", 12, ParkReason::kCut);
  park("b", 12, ParkReason::kCut);
  exit_all();
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 70);
}

TEST_F(CoordinatorTest, StopWhileForming_EndsIt) {
  begin();
  ready("a");
  EXPECT_EQ(sent<Quit>(feed(StopAsked{75, "SIGUSR1"})).size(), 1U);
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
  feed(CommitDone{generation_, 100, "c", ""});
  exit_all();
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 0);
}

TEST_F(CoordinatorTest, LostTrainer_SurvivorsParkThenTheRunEndsWithTheLastCommit) {
  run_two();
  shard(0, 10);
  shard(1, 10);
  feed(CommitDone{generation_, 10, "c", ""});
  const auto effects = say(TrainerExited{"b", true, 9});
  ASSERT_EQ(sent<Abort>(effects).size(), 1U);
  EXPECT_EQ(sent<Abort>(effects)[0].first, "a");
  EXPECT_TRUE(sent<Quit>(effects).empty());
  EXPECT_EQ(sent<Quit>(park("a", 11, ParkReason::kAborted)).size(), 1U);
  say(TrainerExited{"a", false, 0});
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 70);
  EXPECT_NE(finish()->line.find("killed by signal 9"), std::string::npos);
  EXPECT_NE(finish()->hint.find("step 10"), std::string::npos);
}

TEST_F(CoordinatorTest, CoordinatorThatWasSuspended_LosesNobody) {
  run_two();
  now_ += Time(3600000);
  feed(Tick{});
  feed(WorkerBeatSeen{"w"});
  now_ += Time(200);
  feed(Tick{});
  EXPECT_FALSE(finish());
  EXPECT_EQ(machine_->phase(), Phase::kRunning);
}

TEST_F(CoordinatorTest, SilentWorker_Lost) {
  run_two();
  for (const Time end = now_ + config_.lost_after; now_ <= end; now_ += Time(200)) feed(Tick{});
  EXPECT_FALSE(finish());
  feed(Tick{});
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 70);
}

TEST_F(CoordinatorTest, TrainerThatNeverParks_DoesNotHoldUpTheEndForever) {
  run_two();
  say(TrainerExited{"b", true, 9});
  EXPECT_FALSE(finish());
  pass(config_.park_deadline);
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 70);
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

TEST_F(CoordinatorTest, Fenced_Ends) {
  run_two();
  feed(Fenced{4});
  park("a", 5, ParkReason::kAborted);
  park("b", 5, ParkReason::kAborted);
  exit_all();
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 70);
}

TEST_F(CoordinatorTest, ExchangeFailureWithoutADeath_EndsAfterAWhileWithTheEvidence) {
  run_two();
  park("a", 5, ParkReason::kExchangeFailed);
  EXPECT_FALSE(finish());
  pass(config_.lost_after);
  park("b", 5, ParkReason::kAborted);
  exit_all();
  ASSERT_TRUE(finish());
  EXPECT_NE(finish()->line.find("exchange"), std::string::npos);
}

TEST_F(CoordinatorTest, EvaluationIsRecordedOnce) {
  run_two();
  const Evaluated evaluated{generation_, 10, 0, 16, 0.5, 0.9};
  EXPECT_EQ(of<RecordEvaluation>(say(evaluated)).size(), 1U);
  EXPECT_TRUE(of<RecordEvaluation>(say(evaluated)).empty());
}

}  // namespace
}  // namespace rekindle::protocol
