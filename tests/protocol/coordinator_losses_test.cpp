// Trainers and workers that are lost, silent or crash.
#include <csignal>

#include "coordinator_fixture.hpp"

namespace rekindle::protocol {
namespace {

TEST_F(CoordinatorTest, LostTrainer_SurvivorsGoOnFromTheHighestStep) {
  config_.expected_trainers = 3;
  begin();
  for (const char* name : {"a", "b", "c"}) ready(name);
  const auto aborts = sent<Abort>(say(TrainerExited{"b", true, 9}));
  ASSERT_EQ(aborts.size(), 2U);
  EXPECT_TRUE(sent<Start>(pause("a", 11, PauseReason::kAborted)).empty());  // c has not paused yet
  const auto starts = sent<Start>(pause("c", 12, PauseReason::kAborted));
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_EQ(starts[0].second.generation, (GenerationId{3, 2}));
  EXPECT_EQ(starts[0].second.step, 12U);
  EXPECT_EQ(starts[0].second.sources, std::vector<int>{1});  // a copies from c
  EXPECT_FALSE(finish());
}

TEST_F(CoordinatorTest, CoordinatorThatIsHeldUpAgainAndAgain_StillFindsTheSilentOne) {
  run_two();
  silent_ = {"b"};
  for (int i = 0; i < 20 && of<KillTrainer>(all_).empty(); ++i) {
    now_ += config_.lost_after / 2;
    feed(Tick{});
    pass(Time(1000));
  }
  ASSERT_EQ(of<KillTrainer>(all_).size(), 1U);
  EXPECT_EQ(of<KillTrainer>(all_)[0].trainer, "b");
}

TEST_F(CoordinatorTest, OneThatCannotBeginWhileOthersAreReady_DoesNotEndTheRun) {
  config_.expected_trainers = 2;
  begin();
  ready("a");
  say(TrainerFailed{"joiner", 78, "no data", ""});
  EXPECT_FALSE(finish());
  EXPECT_EQ(sent<Start>(ready("b")).size(), 2U);
}

TEST_F(CoordinatorTest, TrainerWithoutAState_IsNoSource) {
  run_two();
  say(StepDone{.generation = generation_, .step = 6, .trainers = 2});
  pause("a", 0, PauseReason::kExchangeFailed, false);  // its state became invalid during a copy
  pause("b", 6, PauseReason::kAborted);
  const auto starts = sent<Start>(pass(config_.link_pause));
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_EQ(starts[0].second.step, 6U);
  EXPECT_EQ(starts[0].second.sources, std::vector<int>{1});
}

TEST_F(CoordinatorTest, NoTrainerHasAState_RestoredInProcess) {
  config_.restorable = {{"old", 4, ""}};
  run_two();
  pause("a", 0, PauseReason::kExchangeFailed, false);
  pause("b", 0, PauseReason::kAborted, false);
  const auto starts = sent<Start>(pass(config_.link_pause));
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_EQ(starts[0].second.restore, "old");
  EXPECT_EQ(starts[0].second.step, 4U);
}

TEST_F(CoordinatorTest, WorkerThatWasSilentAndSpeaksAgain_HasToRegister) {
  run_two();
  for (const Time end = now_ + config_.lost_after; now_ <= end; now_ += Time(200)) feed(Tick{});
  feed(Tick{});
  EXPECT_EQ(of<RegisterAgain>(feed(WorkerBeatSeen{"w-h", {}})).size(), 1U);
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
    pause("b", 5, PauseReason::kAborted);
    ready("a");
    say(StepDone{.generation = machine_->generation(), .step = 5, .trainers = 2});
  }
  EXPECT_FALSE(finish());
}

TEST_F(CoordinatorTest, KilledAgainAndAgainWithoutAStepInBetween_Ended) {
  config_.restorable = {{"five", 5, ""}};
  run_two();
  int rounds = 0;
  for (; !finish() && rounds < 100; ++rounds) {
    ready("a");
    ready("b");
    say(TrainerExited{"a", true, SIGKILL});
    say(TrainerExited{"b", true, SIGKILL});
  }
  EXPECT_EQ(rounds, 20);
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 70);
  EXPECT_EQ(finish()->stuck_at, 5U);
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
  const auto kills = of<KillTrainer>(pass(config_.lost_after + Time(400)));
  ASSERT_EQ(kills.size(), 1U);
  EXPECT_EQ(kills[0].trainer, "b");
}

TEST_F(CoordinatorTest, TrainerThatNeverPauses_KilledAndTheOthersGoOn) {
  config_.expected_trainers = 3;
  begin();
  for (const char* name : {"a", "b", "c"}) ready(name);
  say(TrainerExited{"b", true, 9});
  pause("a", 5, PauseReason::kAborted);
  const auto effects = pass(config_.pause_deadline + Time(200));
  EXPECT_EQ(of<KillTrainer>(effects).size(), 1U);
  EXPECT_EQ(sent<Start>(effects).size(), 1U);
}

TEST_F(CoordinatorTest, EveryTrainerWaitsForAnother_TheirLinkIsSuspectedAndTheThirdTimeOneWorkerGoes) {
  begin();
  ready("a", "{}", "h1");
  ready("b", "{}", "h2");
  std::vector<Dismiss> dismissed;
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
      for (const Dismiss& d : of<Dismiss>(effects)) dismissed.push_back(d);
      for (const Warn& w : of<Warn>(effects)) warned += w.line + "\n";
    }
    ASSERT_TRUE(aborted);
    say(Paused{generation, "a", true, 3, PauseReason::kAborted, -1, {}, ""}, "w-h1");
    say(Paused{generation, "b", true, 3, PauseReason::kAborted, -1, {}, ""}, "w-h2");
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

// In either order of the two reports: the trainer that received the data detects the error; for the other one
// the link has failed.
TEST_F(CoordinatorTest, DataChangedOnTheWay_OneWarningNamesBothEndsAndTheLinkIsBlamed) {
  for (const bool knows_first : {true, false}) {
    SCOPED_TRACE(knows_first);
    begin();
    ready("a", "{}", "h1");
    ready("b", "{}", "h2");
    const GenerationId generation = machine_->generation();
    const Paused knows{generation, "b", true, 3, PauseReason::kDataAltered, 0, {}, "why"};
    const Paused other{generation, "a", true, 3, PauseReason::kExchangeFailed, 1, {}, "why"};
    const auto say_both = [&](const Paused& first, const char* worker, const Paused& second,
                              const char* last) {
      all_.clear();
      say(first, worker);
      say(second, last);
    };
    knows_first ? say_both(knows, "w-h2", other, "w-h1") : say_both(other, "w-h1", knows, "w-h2");
    std::string warned;
    for (const Warn& w : of<Warn>(all_)) warned += w.line + "\n";
    EXPECT_NE(warned.find("data from trainer a on h1 were changed on the way to trainer b on h2"),
              std::string::npos)
        << warned;
    EXPECT_NE(warned.find("failed, though both are alive (1 of 3 times)"), std::string::npos) << warned;
    pass(Time(2000));
    EXPECT_EQ(sent<Start>(all_).size(), 2U) << "the run continues with both";
    EXPECT_TRUE(of<Dismiss>(all_).empty());
  }
}

// The last messages of B before the pause never reach A, and B has paused.
TEST_F(CoordinatorTest, LinkGoesDarkAtAnAgreedPause_TheTrainerThatWaitsIsAborted) {
  begin();
  ready("a", "{}", "h1");
  ready("b", "{}", "h2");
  const GenerationId generation = machine_->generation();
  feed(StopRun{75, "SIGUSR1", Time(0)});
  TrainerBeat a{"a", TrainerPhase::kExchanging, generation, 3, 7, 1, 0};
  TrainerBeat b{"b", TrainerPhase::kIdle, generation, 4, 9, -1, 0};
  say(Paused{generation, "b", true, 4, PauseReason::kAgreed, -1, {}, ""}, "w-h2");
  bool aborted = false;
  for (const Time end = now_ + config_.stall_after * 2; now_ < end && !aborted; now_ += Time(400)) {
    feed(WorkerBeatSeen{"w-h1", {a}});
    feed(WorkerBeatSeen{"w-h2", {b}});
    aborted = !sent<Abort>(feed(Tick{})).empty();
  }
  ASSERT_TRUE(aborted);
  say(Paused{generation, "a", true, 3, PauseReason::kAborted, -1, {}, ""}, "w-h1");
  pass(Time(2000));
  const auto starts = sent<Start>(all_);
  ASSERT_EQ(starts.size(), 4U);
  EXPECT_EQ(starts[3].second.step, 4U);
  EXPECT_TRUE(starts[3].second.stop);
}

TEST_F(CoordinatorTest, EveryTrainerWaitsButBytesMove_NoLinkIsBlamed) {
  begin();
  ready("a", "{}", "h1");
  ready("b", "{}", "h2");
  TrainerBeat a{"a", TrainerPhase::kCopying, machine_->generation(), 3, 7, 1, 0};
  TrainerBeat b{"b", TrainerPhase::kCopying, machine_->generation(), 3, 7, 0, 0};
  for (const Time end = now_ + config_.stall_after * 4; now_ < end; now_ += Time(400)) {
    ++a.progress;  // a slow network: bytes of the peer arrive now and then
    feed(WorkerBeatSeen{"w-h1", {a}});
    feed(WorkerBeatSeen{"w-h2", {b}});
    EXPECT_TRUE(sent<Abort>(feed(Tick{})).empty());
  }
}

TEST_F(CoordinatorTest, Fenced_EndsAtOnceAndOrdersNothing) {
  run_two();
  const auto effects = feed(Fenced{4});
  EXPECT_TRUE(of<SendTrainer>(effects).empty());
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 70);
  EXPECT_TRUE(of<Abandon>(feed(CommitDone{generation_, 3, "c", "", "fenced"})).empty());
}

}  // namespace
}  // namespace rekindle::protocol
