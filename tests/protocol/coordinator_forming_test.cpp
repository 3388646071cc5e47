// Which trainers become members of a generation, and when the generation begins.
#include <algorithm>
#include <csignal>

#include "coordinator_fixture.hpp"

namespace rekindle::protocol {
namespace {

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
    // Step 40 ends an epoch, and its evaluation is not in the records.
    EXPECT_TRUE(starts[rank].second.evaluate);
  }
}

TEST_F(CoordinatorTest, GatherTimeOver_StartsWithTheTrainersPresent) {
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

TEST_F(CoordinatorTest, HelperOfAnotherFingerprint_IsSentAwayAndTheRunGoesOn) {
  begin();
  ready("a", "{\"threads\":1}");
  help("c", "{\"threads\":2}");
  EXPECT_EQ(of<Dismiss>(all_).size(), 1U);
  EXPECT_EQ(sent<Start>(ready("b", "{\"threads\":1}")).size(), 2U);
  EXPECT_FALSE(finish());
}

TEST_F(CoordinatorTest, HelperOnAnotherMachineWhereMemoryIsShared_IsSentAway) {
  for (const std::string exchange : {"shm", "auto"}) {
    config_.job.exchange = exchange;
    run_two();
    Address elsewhere;
    elsewhere.host = "another";
    help("c", "{}", elsewhere);
    EXPECT_EQ(of<Dismiss>(all_).size(), exchange == "shm" ? 1U : 0U);
    EXPECT_FALSE(finish());
  }
}

TEST_F(CoordinatorTest, HelpersOfAnotherFingerprintCameFirst_TheRunsOwnTrainersCount) {
  for (const bool restarted : {false, true}) {
    config_.restarted = restarted;
    begin();
    help("c", "{\"threads\":2}");
    EXPECT_TRUE(sent<Start>(help("d", "{\"threads\":2}")).empty()) << "two are expected, but not these";
    const auto effects = ready("a", "{\"threads\":1}");
    EXPECT_EQ(of<Dismiss>(effects).size(), 2U);
    auto starts = sent<Start>(ready("b", "{\"threads\":1}"));
    if (restarted) starts = sent<Start>(pass(config_.lost_after));
    EXPECT_EQ(starts.size(), 2U);
    EXPECT_FALSE(finish());
  }
}

TEST_F(CoordinatorTest, HelperWithAMismatchCameFirst_TheMatchingOneIsKept) {
  begin();
  help("c", "{\"threads\":2}");
  EXPECT_TRUE(of<Dismiss>(help("d", "{\"threads\":1}")).empty());
  EXPECT_EQ(of<Dismiss>(ready("a", "{\"threads\":1}")).size(), 1U);
  EXPECT_TRUE(machine_->trainers().contains("d"));
}

TEST_F(CoordinatorTest, HelpersAloneWhenTheGatherTimeIsOver_TheMatchingOnesBegin) {
  begin();
  help("c", "{\"threads\":2}");
  help("d", "{\"threads\":1}");
  help("e", "{\"threads\":2}");
  const auto effects = pass(config_.gather_time);
  EXPECT_EQ(sent<Start>(effects).size(), 2U);
  EXPECT_EQ(of<Dismiss>(effects).size(), 1U);
}

TEST_F(CoordinatorTest, HelperThatFailsOrCrashesBeforeTrainingBegins_DoesNotEndTheRun) {
  begin();
  feed(WorkerRegistered{{"w-c", "hc", "build", 1, {}, true}});
  say(TrainerFailed{"c", 78, "no data", ""}, "w-c");
  EXPECT_FALSE(finish());
  for (int i = 0; i < 20; ++i) say(TrainerExited{str("c", i), true, SIGILL}, "w-c");
  EXPECT_FALSE(finish());
  ready("a");
  EXPECT_EQ(sent<Start>(ready("b")).size(), 2U);
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

TEST_F(CoordinatorTest, MoreTrainersThanMicroBatches_TheRestAreSpares) {
  config_.expected_trainers = 6;
  begin();
  std::vector<Effect> last;
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) last = ready(name);
  EXPECT_EQ(sent<Start>(last).size(), 4U);
  EXPECT_EQ(of<Warn>(last).size(), 0U) << "the start of the run reports it";
}

// The start of the run does not count helpers.
TEST_F(CoordinatorTest, HelpersBeyondTheMicroBatches_AreReportedOnce) {
  config_.expected_trainers = 6;
  begin();
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) ready(name);
  for (const char* name : {"x", "y", "z"}) help(name, "{}");
  const auto lines = [this] {
    std::vector<std::string> found;
    for (const Warn& warn : of<Warn>(all_))
      if (warn.line.find("as spares") != std::string::npos) found.push_back(warn.line);
    return found;
  };
  for (std::uint64_t generation = 1; generation <= 2; ++generation) {
    EXPECT_EQ(lines().size(), generation - 1);
    const std::vector<std::string> members = machine_->members();
    say(TrainerExited{members[0], true, 9}, machine_->trainers().at(members[0]).worker);
    for (std::size_t rank = 1; rank < members.size(); ++rank) pause(members[rank], 0, PauseReason::kAborted);
    EXPECT_EQ(machine_->generation().number, generation + 1);
  }
  ASSERT_EQ(lines().size(), 1U);
  EXPECT_NE(lines()[0].find("4 trainers wait as spares"), std::string::npos) << lines()[0];
}

TEST_F(CoordinatorTest, StopWhileForming_EndsIt) {
  begin();
  ready("a");
  EXPECT_EQ(sent<Quit>(feed(StopRun{75, "SIGUSR1", Time(0)})).size(), 1U);
  say(TrainerExited{"a", false, 0});
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 75);
}

TEST_F(CoordinatorTest, Newcomer_LetInAtAPauseAfterAStepAndNotWhileACheckpointIsWritten) {
  run_two();
  EXPECT_TRUE(sent<PauseForJoin>(ready("c")).empty());
  EXPECT_TRUE(sent<PauseForJoin>(pass(config_.join_batch * 2)).empty());  // no step has been made yet
  shard(0, 1);
  EXPECT_TRUE(sent<PauseForJoin>(say(StepDone{.generation = generation_, .step = 1, .trainers = 2})).empty());
  shard(1, 1);
  const auto cuts = sent<PauseForJoin>(feed(CommitDone{generation_, 1, "one", "", ""}));
  ASSERT_EQ(cuts.size(), 2U);
  pause("a", 2, PauseReason::kAgreed);
  const auto starts = sent<Start>(pause("b", 2, PauseReason::kAgreed));
  ASSERT_EQ(starts.size(), 3U);
  EXPECT_EQ(starts[0].second.sources, (std::vector<int>{0, 1}));
  EXPECT_EQ(starts[2].first, "c");
}

TEST_F(CoordinatorTest, FewerThanTheMinimum_WaitsThenSavesAndEnds75) {
  config_.job.min_trainers = 2;
  config_.gather_time = Time(3000);
  run_two();
  say(TrainerExited{"b", true, 9});
  EXPECT_TRUE(sent<Start>(pause("a", 7, PauseReason::kAborted)).empty());
  EXPECT_EQ(machine_->phase(), Phase::kGathering);
  const auto starts = sent<Start>(pass(config_.gather_time + Time(200)));
  ASSERT_EQ(starts.size(), 1U);
  EXPECT_TRUE(starts[0].second.stop);
  say(ShardWritten{machine_->generation(), "a", 7, 0, "s", "t", "d", 1});
  pause("a", 7, PauseReason::kAgreed);
  feed(CommitDone{machine_->generation(), 7, "seven", "", ""});
  say(TrainerExited{"a", false, 0});
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 75);
}

TEST_F(CoordinatorTest, FewerThanTheMinimum_GoesOnWhenSomebodyJoins) {
  config_.job.min_trainers = 2;
  run_two();
  say(TrainerExited{"b", true, 9});
  pause("a", 7, PauseReason::kAborted);
  const auto starts = sent<Start>(ready("c"));
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_EQ(starts[0].second.step, 7U);
}

TEST_F(CoordinatorTest, JoinerOfAnotherBuild_RefusedAndNobodyIsDisturbed) {
  run_two();
  const auto effects = ready("c", "{\"threads\":2}", "h2");
  EXPECT_EQ(of<Dismiss>(effects).size(), 1U);
  EXPECT_FALSE(machine_->trainers().contains("c"));
  EXPECT_EQ(machine_->phase(), Phase::kRunning);
}

// Steps are quicker than the screen is drawn, but whoever asks for each fifth step gets each.
TEST_F(CoordinatorTest, LogInterval_EachOfItsStepsIsShown) {
  config_.job.log_interval = 5;
  run_two();
  std::vector<std::uint64_t> shown;
  for (std::uint64_t step = 1; step <= 16; ++step) {
    for (const ShowProgress& each :
         of<ShowProgress>(say(StepDone{.generation = generation_, .step = step, .trainers = 2})))
      shown.push_back(each.progress.step);
  }
  EXPECT_EQ(shown, (std::vector<std::uint64_t>{1, 5, 10, 15}));
}

// A report of which process has which GPU.
TEST_F(CoordinatorTest, StartTable_HasTheGpuOfEachProcess) {
  begin();
  enter("w-h");
  for (const int number : {0, 1}) {
    TrainerReady ready{number == 0 ? "a" : "b", "h", str("cuda:", number), "{}", {}, 100 + number};
    ready.gpu_identity = str(number);
    say(ready);
  }
  std::string lines;
  for (const Info& info : of<Info>(all_)) lines += info.line + "\n";
  for (const int number : {0, 1})
    EXPECT_NE(lines.find(str("  ", number, "     h                cuda:", number, "  ", 100 + number, " ")),
              std::string::npos)
        << lines;
}

}  // namespace
}  // namespace rekindle::protocol
