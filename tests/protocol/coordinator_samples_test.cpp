// Samples that some or all workers cannot use: who is left out, and when the run ends.
#include "coordinator_fixture.hpp"

namespace rekindle::protocol {
namespace {

TEST_F(CoordinatorTest, SamplesThatAreLeftOut_ToldAndCountedOnceEach) {
  run_two();
  const auto told = [&](const std::string& why) {
    std::string lines;
    for (const Warn& warning : of<Warn>(say(SampleSkipped{why}))) lines += warning.line;
    return lines;
  };
  EXPECT_EQ(told("a.jpg is damaged"),
            "a.jpg is damaged (seen by w-h); the next readable sample takes its place (1 so far)");
  EXPECT_EQ(told("a.jpg is damaged"), "") << "another trainer has met it, too";
  EXPECT_EQ(told("b.jpg is damaged"),
            "b.jpg is damaged (seen by w-h); the next readable sample takes its place (2 so far)");
  int lines = 0;
  for (int i = 2; i < 100; ++i) lines += told(str(i, ".jpg is damaged")).empty() ? 0 : 1;
  EXPECT_EQ(lines, 18 + 2);
}

class CoordinatorSamples : public CoordinatorTest {
 protected:
  // Trainers a and b on the hosts h1 and h2.
  void run_on_two_hosts() {
    config_.expected_trainers = 2;
    begin();
    ready("a", "{}", "h1");
    ready("b", "{}", "h2");
    ASSERT_EQ(machine_->members(), (std::vector<std::string>{"a", "b"}));
  }
  std::vector<Warn> beat(const std::string& name, TrainerPhase phase) {
    const TrainerBeat beat{name, phase, machine_->generation(), 5, ++progress_, -1, 0};
    return of<Warn>(feed(WorkerBeatSeen{machine_->trainers().at(name).worker, {beat}}));
  }
  // The generation saves the state and the run ends.
  void save_and_exit(const std::vector<std::string>& trainers, std::uint64_t step) {
    for (const std::string& name : trainers) begin_shard(name, step);
    for (const std::string& name : trainers) pause(name, step, PauseReason::kAgreed);
    int rank = 0;
    for (const std::string& name : trainers)
      feed(TrainerReported{machine_->trainers().at(name).worker,
                           ShardWritten{machine_->generation(), name, step, rank++, "s", "t", "d", 1}});
    feed(CommitDone{machine_->generation(), step, "c", "", ""});
    for (const std::string& name : trainers)
      feed(TrainerReported{machine_->trainers().at(name).worker, TrainerExited{name, false, 0}});
  }
};

TEST_F(CoordinatorSamples, OneWorkerCannotUseThem_TheOthersGoOnFromTheSameStep) {
  run_on_two_hosts();
  pause("b", 5, PauseReason::kSamplesUnusable);
  const auto effects = pause("a", 5, PauseReason::kAborted);
  const auto dismissed = of<Dismiss>(effects);
  ASSERT_EQ(dismissed.size(), 1U);
  EXPECT_EQ(dismissed[0].worker, "w-h2");
  EXPECT_EQ(dismissed[0].exit_code, 78);
  EXPECT_NE(dismissed[0].why.find("h2"), std::string::npos) << dismissed[0].why;
  EXPECT_NE(dismissed[0].why.find("why"), std::string::npos) << "the file is named: " << dismissed[0].why;
  const auto starts = sent<Start>(effects);
  ASSERT_EQ(starts.size(), 1U);
  EXPECT_EQ(starts[0].first, "a");
  EXPECT_EQ(starts[0].second.step, 5U);
  EXPECT_FALSE(starts[0].second.stop) << "the run goes on";
  EXPECT_FALSE(finish());
}

// The dismissal may be lost with the connection.
TEST_F(CoordinatorSamples, AWorkerThatIsLeftOut_DoesNotComeBack) {
  run_on_two_hosts();
  pause("b", 5, PauseReason::kSamplesUnusable);
  pause("a", 5, PauseReason::kAborted);
  EXPECT_EQ(of<RegisterAgain>(feed(WorkerBeatSeen{"w-h2", {}})).size(), 1U);
  const auto again = feed(WorkerRegistered{{"w-h2", "h2", "build", 1, {}}});
  ASSERT_EQ(of<Dismiss>(again).size(), 1U);
  EXPECT_EQ(of<Dismiss>(again)[0].exit_code, 78);
  EXPECT_EQ(machine_->trainers().size(), 1U);
}

// A helper on the same host may see other files, in another mount namespace.
TEST_F(CoordinatorSamples, AHelperOnTheSameHost_IsLeftOutAlone) {
  config_.expected_trainers = 1;
  begin();
  ready("a");
  feed(WorkerRegistered{{"w-join", "h", "build", 1, {}, true}});
  say(TrainerReady{"j", "h", "cpu", "{}", {}, 1}, "w-join");
  say(StepDone{.generation = machine_->generation(), .step = 1});
  pass(Time(600));
  pause("a", 2, PauseReason::kAgreed);
  ASSERT_EQ(machine_->members().size(), 2U);
  pause("j", 3, PauseReason::kSamplesUnusable);
  const auto effects = pause("a", 3, PauseReason::kAborted);
  ASSERT_EQ(of<Dismiss>(effects).size(), 1U);
  EXPECT_EQ(of<Dismiss>(effects)[0].worker, "w-join");
  EXPECT_EQ(machine_->members(), std::vector<std::string>{"a"});
}

TEST_F(CoordinatorSamples, NoWorkerCanUseThem_TheLastOneSavesTheState) {
  run_on_two_hosts();
  pause("a", 5, PauseReason::kSamplesUnusable);
  pause("b", 5, PauseReason::kAborted);
  EXPECT_EQ(machine_->members(), std::vector<std::string>{"b"});
  const auto starts = sent<Start>(pause("b", 5, PauseReason::kSamplesUnusable));
  ASSERT_EQ(starts.size(), 1U);
  EXPECT_TRUE(starts[0].second.stop);
  save_and_exit({"b"}, 5);
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 78);
  EXPECT_NE(finish()->line.find("the state is saved: on host h2: why"), std::string::npos) << finish()->line;
}

// Samples that cannot be read may be readable later, or elsewhere.
TEST_F(CoordinatorSamples, OneWorkerCannotReadThem_TheOthersGoOn) {
  run_on_two_hosts();
  pause("b", 5, PauseReason::kSamplesUnreadable);
  const auto effects = pause("a", 5, PauseReason::kAborted);
  ASSERT_EQ(of<Dismiss>(effects).size(), 1U);
  EXPECT_EQ(of<Dismiss>(effects)[0].worker, "w-h2");
  EXPECT_EQ(machine_->members(), std::vector<std::string>{"a"});
  EXPECT_FALSE(sent<Start>(effects).at(0).second.stop);
}

TEST_F(CoordinatorSamples, NoWorkerCanReadThem_TheStateIsSavedAndAnotherAttemptMayGoOn) {
  run_on_two_hosts();
  pause("a", 5, PauseReason::kSamplesUnreadable);
  const auto effects = pause("b", 5, PauseReason::kSamplesUnreadable);
  EXPECT_TRUE(of<Dismiss>(effects).empty());
  ASSERT_EQ(sent<Start>(effects).size(), 2U);
  save_and_exit({"a", "b"}, 5);
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 75);
  EXPECT_NE(finish()->line.find("the state is saved: on host h1: why"), std::string::npos) << finish()->line;
}

// Each of many workers would wait for the whole time, and be lost.
TEST_F(CoordinatorSamples, AllWaitForThem_TheStorageIsAwayAndNoneIsLeftOut) {
  run_on_two_hosts();
  beat("a", TrainerPhase::kReading);
  beat("b", TrainerPhase::kReading);
  pause("b", 5, PauseReason::kSamplesUnreadable);
  const auto effects = pause("a", 5, PauseReason::kAborted);
  EXPECT_TRUE(of<Dismiss>(effects).empty());
  ASSERT_EQ(sent<Start>(effects).size(), 2U);
  EXPECT_TRUE(sent<Start>(effects)[0].second.stop);
  save_and_exit({"a", "b"}, 5);
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 75);
}

// Two nodes of many have a bad mount.
TEST_F(CoordinatorSamples, TwoWorkersCannotReadThem_TheThirdGoesOn) {
  config_.expected_trainers = 3;
  begin();
  for (const char* name : {"a", "b", "c"}) ready(name, "{}", str("h", name));
  ASSERT_EQ(machine_->members().size(), 3U);
  beat("a", TrainerPhase::kReading);
  beat("b", TrainerPhase::kReading);
  pause("a", 5, PauseReason::kSamplesUnreadable);
  pause("b", 5, PauseReason::kAborted);
  EXPECT_EQ(of<Dismiss>(pause("c", 5, PauseReason::kAborted)).size(), 1U);
  pause("b", 5, PauseReason::kSamplesUnreadable);
  EXPECT_EQ(of<Dismiss>(pause("c", 5, PauseReason::kAborted)).size(), 1U);
  EXPECT_EQ(machine_->members(), std::vector<std::string>{"c"});
}

// Where a stop ends the wait, nobody need hear of the samples.
TEST_F(CoordinatorSamples, AStopMeanwhile_IsNoFaultOfAWorker) {
  run_on_two_hosts();
  feed(StopRun{75, "SIGUSR1", Time(0)});
  pause("b", 5, PauseReason::kSamplesUnreadable);
  const auto effects = pause("a", 5, PauseReason::kAborted);
  EXPECT_TRUE(of<Warn>(effects).empty());
  EXPECT_TRUE(of<Dismiss>(effects).empty());
  save_and_exit({"a", "b"}, 5);
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->line, "stopped at step 5 of 100, the state is saved");
}

// As the storage is away, the state cannot be written at first either.
TEST_F(CoordinatorSamples, TheStateCannotBeWrittenEither_TriedForAsLong) {
  config_.job.data_wait_ms = 300000;
  config_.expected_trainers = 1;
  begin();
  ready("a", "{}", "h1");
  pause("a", 5, PauseReason::kSamplesUnreadable);
  int tries = 0;
  while (!finish() && tries < 100) {
    ASSERT_EQ(machine_->phase(), Phase::kRunning) << tries;
    ++tries;
    feed(TrainerReported{"w-h1", ShardFailed{machine_->generation(), "a", 5, "away"}});
    pause("a", 5, PauseReason::kAgreed);
    if (machine_->ending()) break;
    pass(Time(30200));
  }
  EXPECT_EQ(tries, 6 + 10);
  EXPECT_EQ(machine_->ending()->cause, EndCause::kNotWritten);
}

TEST_F(CoordinatorSamples, TrainersThatWaitForSamples_AreToldOnce) {
  run_on_two_hosts();
  EXPECT_TRUE(beat("a", TrainerPhase::kComputing).empty());
  const auto told = beat("b", TrainerPhase::kReading);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_NE(told[0].line.find("trainer b on host h2 cannot read"), std::string::npos) << told[0].line;
  EXPECT_TRUE(beat("b", TrainerPhase::kReading).empty());
  EXPECT_TRUE(beat("a", TrainerPhase::kReading).empty());
  EXPECT_TRUE(beat("a", TrainerPhase::kComputing).empty());
  EXPECT_TRUE(beat("b", TrainerPhase::kComputing).empty());
  EXPECT_TRUE(beat("b", TrainerPhase::kReading).empty()) << "it comes and goes";
  pass(Time(60000));
  EXPECT_EQ(beat("b", TrainerPhase::kReading).size(), 1U) << "a second outage";
}

TEST_F(CoordinatorSamples, AllWorkersReportAtOnce_NoneIsLeftOut) {
  run_on_two_hosts();
  pause("a", 5, PauseReason::kSamplesUnusable);
  const auto effects = pause("b", 5, PauseReason::kSamplesUnusable);
  EXPECT_TRUE(of<Dismiss>(effects).empty());
  ASSERT_EQ(sent<Start>(effects).size(), 2U);
  save_and_exit({"a", "b"}, 5);
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 78);
}

// Else the run would wait for other trainers, and end with 75.
TEST_F(CoordinatorSamples, TooFewTrainersWouldBeLeft_StateIsSavedAndTheRunEnds) {
  config_.job.min_trainers = 2;
  run_on_two_hosts();
  pause("a", 5, PauseReason::kSamplesUnusable);
  const auto effects = pause("b", 5, PauseReason::kAborted);
  EXPECT_TRUE(of<Dismiss>(effects).empty());
  ASSERT_EQ(sent<Start>(effects).size(), 2U);
  EXPECT_TRUE(sent<Start>(effects)[0].second.stop);
}

// The only worker with the state cannot use the samples. A worker that has just come gets the state first.
TEST_F(CoordinatorSamples, OnlyTheReporterHasTheState_ItIsCopiedBeforeTheReporterIsLeftOut) {
  config_.expected_trainers = 1;
  begin();
  ready("a", "{}", "h1");
  ready("b", "{}", "h2");
  ASSERT_EQ(machine_->members(), std::vector<std::string>{"a"});
  const auto copied = pause("a", 5, PauseReason::kSamplesUnusable);
  EXPECT_TRUE(of<Dismiss>(copied).empty());
  ASSERT_EQ(sent<Start>(copied).size(), 2U);
  EXPECT_FALSE(sent<Start>(copied)[0].second.stop);
  pause("a", 5, PauseReason::kSamplesUnusable);
  const auto effects = pause("b", 5, PauseReason::kAborted);
  EXPECT_EQ(of<Dismiss>(effects).size(), 1U);
  EXPECT_EQ(machine_->members(), std::vector<std::string>{"b"});
}

// A batch of one micro-batch: the other trainer is a spare and can never get the state.
TEST_F(CoordinatorSamples, TheOtherTrainerIsASpare_TheSecondReportEndsTheRun) {
  config_.expected_trainers = 2;
  config_.job.micro_batches = 1;
  begin();
  ready("a", "{}", "h1");
  ready("b", "{}", "h2");
  ASSERT_EQ(machine_->members(), std::vector<std::string>{"a"});
  const auto first = sent<Start>(pause("a", 5, PauseReason::kSamplesUnusable));
  ASSERT_EQ(first.size(), 1U);
  EXPECT_FALSE(first[0].second.stop);
  const auto second = sent<Start>(pause("a", 5, PauseReason::kSamplesUnusable));
  ASSERT_EQ(second.size(), 1U);
  EXPECT_TRUE(second[0].second.stop) << "the generations would repeat for ever";
}

}  // namespace
}  // namespace rekindle::protocol
