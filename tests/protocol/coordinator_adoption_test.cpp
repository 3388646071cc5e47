// A coordinator that finds a generation of an older coordinator.
#include <csignal>

#include "coordinator_fixture.hpp"

namespace rekindle::protocol {
namespace {

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

// What the old coordinator has learned about NCCL goes on with the generation.
TEST_F(Adoption, NcclHasFailedBefore_ItIsNotTriedAgain) {
  start_.without_nccl = true;
  begin();
  for (const int rank : {0, 1}) {
    TrainerState member = state(rank == 0 ? "a" : "b", rank);
    member.ready.address.nccl = str("22809 ", rank);
    member.ready.gpu_identity = str(rank);
    enters(str("w", rank), member);
  }
  for (const char* name : {"a", "b"})
    say(Paused{{2, 5}, name, true, 12, PauseReason::kAborted, -1, {}, ""}, name[0] == 'a' ? "w0" : "w1");
  const auto starts = sent<Start>(all_);
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_TRUE(starts[0].second.without_nccl);
}

// The old coordinator sent Start only to the joining trainer, and died. The source is still paused with its
// state.
TEST_F(Adoption, SourceWithoutItsStart_ItsStepIsNotLost) {
  for (const bool source_first : {true, false}) {
    workers_.clear();
    config_.restorable = {{"old", 4, ""}};
    start_.sources = {0};
    begin();
    TrainerState source = state("a", 0), newcomer = state("b", 1);
    source.started->generation = {2, 4};
    source.parked = Paused{{2, 4}, "a", true, 10, PauseReason::kAborted, -1, {}, ""};
    newcomer.parked = Paused{{2, 5}, "b", false, 0, PauseReason::kExchangeFailed, 0, {}, ""};
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

TEST_F(Adoption, TrainerThatPausedBeforeARollBack_IsNoSource) {
  config_.restorable = {{"old", 10, ""}};
  begin();
  TrainerState tainted = state("a", 0);
  tainted.started->generation = {2, 4};
  tainted.parked = Paused{{2, 4}, "a", true, 19, PauseReason::kAborted, -1, {}, ""};
  TrainerState other = state("b", 1);
  other.parked = Paused{{2, 5}, "b", true, 10, PauseReason::kAborted, -1, {}, ""};
  enters("w1", tainted);
  enters("w2", other);
  pass(config_.lost_after + Time(2000));
  const auto starts = sent<Start>(all_);
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_EQ(starts[0].second.step, 10U);
}

TEST_F(Adoption, RunningGeneration_TakenOverWithoutAMessageToItsTrainers) {
  begin();
  EXPECT_TRUE(of<SendTrainer>(enters("w1", state("a", 0))).empty());
  EXPECT_EQ(machine_->phase(), Phase::kAdopting);
  EXPECT_TRUE(of<SendTrainer>(enters("w2", state("b", 1))).empty());
  EXPECT_EQ(machine_->phase(), Phase::kRunning);
  EXPECT_EQ(machine_->generation(), (GenerationId{2, 5}));
  // The checkpoints of the adopted generation are committed as usual.
  say(ShardWritten{{2, 5}, "a", 20, 0, "s", "t", "d", 1}, "w1");
  EXPECT_EQ(of<Commit>(say(ShardWritten{{2, 5}, "b", 20, 1, "s", "t", "d", 1}, "w2")).size(), 1U);
}

TEST_F(Adoption, StateThatChangedWithoutACoordinator_NothingLaterIsCommitted) {
  start_.members = std::vector<Member>{{"a", {}}};
  config_.expected_trainers = 1;
  config_.restorable = {{"old", 10, ""}};
  begin();
  TrainerState suspect = state("a", 0);
  suspect.failed = {ShardFailed{{2, 5}, "a", 20, "it has changed", true}};
  suspect.written = {ShardWritten{{2, 5}, "a", 21, 0, "s", "t", "d", 1}};
  enters("w1", suspect);
  EXPECT_TRUE(of<Commit>(all_).empty());
  const auto starts =
      sent<Start>(say(Paused{{2, 5}, "a", true, 22, PauseReason::kAborted, -1, {}, ""}, "w1"));
  ASSERT_EQ(starts.size(), 1U);
  EXPECT_EQ(starts[0].second.restore, "old");
}

TEST_F(Adoption, AbsentMember_WaitedForThenLost) {
  begin();
  enters("w1", state("a", 0));
  EXPECT_TRUE(sent<Abort>(pass(config_.adopt_time - Time(1000))).empty());
  EXPECT_EQ(sent<Abort>(pass(Time(1200))).size(), 1U);
  Paused paused{{2, 5}, "a", true, 17, PauseReason::kAborted, -1, {}, ""};
  const auto starts = sent<Start>(say(paused, "w1"));
  ASSERT_EQ(starts.size(), 1U);
  EXPECT_EQ(starts[0].second.generation, (GenerationId{3, 1}));
  EXPECT_EQ(starts[0].second.step, 17U);
  // The absent member registers later: its generation is over.
  const auto late = enters("w2", state("b", 1));
  ASSERT_EQ(of<KillTrainer>(late).size(), 1U);
}

TEST_F(Adoption, StalledGeneration_TheAbsenteeIsNotWaitedForLong) {
  begin();
  TrainerState stalled = state("a", 0);
  stalled.parked = Paused{{2, 5}, "a", true, 17, PauseReason::kExchangeFailed, 1, {}, ""};
  enters("w1", stalled);
  EXPECT_EQ(sent<Start>(pass(config_.lost_after + Time(400))).size(), 1U);
}

TEST_F(Adoption, StopBeforeEverybodyRegistered_ReachesThem) {
  begin();
  enters("w1", state("a", 0));
  EXPECT_EQ(sent<Stop>(feed(StopRun{75, "SIGUSR1", Time(0)})).size(), 1U);
  EXPECT_EQ(sent<Stop>(enters("w2", state("b", 1))).size(), 3U);  // a second Stop does no harm
}

TEST_F(Adoption, ShardsReportedToTheOldCoordinator_Committed) {
  begin();
  TrainerState a = state("a", 0), b = state("b", 1);
  a.written = {ShardWritten{{2, 5}, "a", 20, 0, "s", "t", "d", 1}};
  b.written = {ShardWritten{{2, 5}, "b", 20, 1, "s", "t", "d", 1}};
  EXPECT_TRUE(of<Commit>(enters("w1", a)).empty());
  EXPECT_EQ(of<Commit>(enters("w2", b)).size(), 1U);
}

// The connections broke for a moment. A trainer that is lost an hour later starts a new gather time.
TEST_F(CoordinatorTest, GenerationThatIsTakenOverAgain_TheNextGatheringHasItsFullTime) {
  config_.job.min_trainers = 2;
  run_two();
  feed(WorkerLost{"w-h", "its connection broke"});
  ASSERT_EQ(machine_->phase(), Phase::kGathering);
  Start start;
  start.generation = generation_;
  start.members = std::vector<Member>{{"a", {}}, {"b", {}}};
  Registration again{"w-h", "h", "build", 2, {}};
  for (const char* name : {"a", "b"}) {
    TrainerState state;
    state.ready = TrainerReady{name, "h", "cpu", "{}", {}, 1};
    state.started = start;
    state.started->rank = name[0] - 'a';
    again.trainers.push_back(state);
  }
  feed(WorkerRegistered{again});
  ASSERT_EQ(machine_->phase(), Phase::kRunning);
  now_ += config_.gather_time * 2;
  say(TrainerExited{"b", true, 9});
  pause("a", 5, PauseReason::kAborted);
  ASSERT_EQ(machine_->phase(), Phase::kGathering);
  pass(config_.gather_time - Time(1000));
  EXPECT_EQ(machine_->phase(), Phase::kGathering) << "the run waits for the trainer that is being restarted";
}

}  // namespace
}  // namespace rekindle::protocol
