// Trainers that hang.
#include <csignal>

#include "coordinator_fixture.hpp"

namespace rekindle::protocol {
namespace {

TEST_F(CoordinatorTest, HangingTrainer_KilledButNotOneThatWaits) {
  run_two();
  TrainerBeat hung{"a", TrainerPhase::kComputing, generation_, 3, 7, -1, 0};
  TrainerBeat waits{"b", TrainerPhase::kExchanging, generation_, 3, 7, 0, 0};
  std::vector<KillTrainer> kills;
  for (const Time end = now_ + config_.hang_after + Time(1000); now_ < end; now_ += Time(400)) {
    feed(WorkerBeatSeen{"w-h", {hung, waits}});
    for (const KillTrainer& kill : of<KillTrainer>(feed(Tick{}))) kills.push_back(kill);
  }
  ASSERT_EQ(kills.size(), 1U);
  EXPECT_EQ(kills[0].trainer, "a");
}

// The state may be large.
TEST_F(CoordinatorTest, TrainerInAnUpdate_HasLongerToPauseButNotForEver) {
  config_.expected_trainers = 3;
  begin();
  for (const char* name : {"a", "b", "c"}) ready(name);
  say(TrainerExited{"b", true, 9});
  pause("a", 5, PauseReason::kAborted);
  const TrainerBeat a{"a", TrainerPhase::kIdle, machine_->generation(), 5, 1, -1, 0};
  const auto kills_while = [&](TrainerPhase phase, int waits_for, Time time) {
    std::vector<KillTrainer> kills;
    const TrainerBeat c{"c", phase, machine_->generation(), 5, 7, waits_for, 0};
    for (const Time end = now_ + time; now_ < end && kills.empty(); now_ += Time(200)) {
      feed(WorkerBeatSeen{"w-h", {a, c}});
      kills = of<KillTrainer>(feed(Tick{}));
    }
    return kills;
  };
  EXPECT_TRUE(kills_while(TrainerPhase::kApplying, -1, config_.pause_deadline * 2 + Time(1000)).empty());
  EXPECT_TRUE(kills_while(TrainerPhase::kComputing, -1, config_.pause_deadline / 2).empty())
      << "it has only just ended the update";
  EXPECT_TRUE(kills_while(TrainerPhase::kApplying, -1, config_.pause_deadline).empty());
  const auto kills = kills_while(TrainerPhase::kApplying, -1, config_.hang_after + Time(1000));
  ASSERT_EQ(kills.size(), 1U);
  EXPECT_EQ(kills[0].trainer, "c");
  EXPECT_EQ(kills[0].cause, KillCause::kHangs);
}

// The state of the one that has paused is to be written in time.
TEST_F(CoordinatorTest, TrainerInAnUpdateWhileAStopHasALimit_HasNoLongerToPause) {
  config_.expected_trainers = 3;
  begin();
  for (const char* name : {"a", "b", "c"}) ready(name);
  feed(StopRun{75, "SIGUSR1", Time(60000)});
  say(TrainerExited{"b", true, 9});
  TrainerBeat a{"a", TrainerPhase::kApplying, machine_->generation(), 5, 7, -1, 0}, c = a;
  c.trainer = "c";
  const auto kills_within = [&](Time time) {
    std::vector<KillTrainer> kills;
    for (const Time end = now_ + time; now_ < end && kills.empty(); now_ += Time(200)) {
      feed(WorkerBeatSeen{"w-h", {a, c}});
      kills = of<KillTrainer>(feed(Tick{}));
    }
    return kills.size();
  };
  EXPECT_EQ(kills_within(config_.pause_deadline + Time(1000)), 0U) << "nobody has a state to write";
  pause("a", 5, PauseReason::kAborted);
  a.phase = TrainerPhase::kIdle;
  EXPECT_EQ(kills_within(config_.pause_deadline + Time(1000)), 1U);
}

class HangsAtStepFive : public CoordinatorTest {
 protected:
  // Two trainers hang in `phase` until the run ends. Returns how many were killed.
  int hang(TrainerPhase phase) {
    config_.restorable = {{"five", 5, ""}};
    run_two();
    int kills = 0;
    for (const Time limit = config_.hang_after * 20; now_ < limit && !finish(); now_ += Time(400)) {
      TrainerBeat a{"a", phase, machine_->generation(), 5, 7, -1, 0}, b = a;
      b.trainer = "b";
      feed(WorkerBeatSeen{"w-h", {a, b}});
      std::vector<std::string> killed;
      for (const KillTrainer& kill : of<KillTrainer>(feed(Tick{}))) killed.push_back(kill.trainer);
      for (const std::string& name : killed) {
        ++kills;
        say(TrainerExited{name, true, SIGKILL});
      }
      for (const std::string& name : killed) ready(name);
    }
    return kills;
  }
};

// Such as a data set that waits for ever at one sample.
TEST_F(HangsAtStepFive, TheFifthEndsTheRunAndNamesTheStep) {
  EXPECT_EQ(hang(TrainerPhase::kComputing), 10) << "two trainers, five generations";
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->exit_code, 70);
  EXPECT_EQ(finish()->stuck_at, 5U);
  EXPECT_EQ(finish()->line.rfind("trainers hang again and again at step 5: trainer ", 0), 0U)
      << finish()->line;
}

// The samples of the step that comes after it are not at fault.
TEST_F(HangsAtStepFive, InAnEvaluation_NamesNoSamplesOfTheTraining) {
  config_.job.train_samples = 5 * config_.job.batch_size;
  config_.job.test_samples = 1;
  hang(TrainerPhase::kEvaluating);
  ASSERT_TRUE(finish());
  EXPECT_EQ(finish()->stuck_at, std::nullopt);
  EXPECT_EQ(finish()->line.rfind("trainers hang again and again in the evaluation after step 5: trainer ", 0),
            0U)
      << finish()->line;
}

// An overloaded machine: without a longer limit, it would never make a step.
TEST_F(CoordinatorTest, SilentAgainBeforeAStep_TheLimitDoubles) {
  run_two();
  const auto ticks_until_lost = [this] {
    const Time begin = now_;
    for (; machine_->trainers().size() == 2 && now_ < begin + Time(100000); now_ += Time(200)) feed(Tick{});
    feed(Tick{});
    return now_ - begin;
  };
  const auto come_back = [this] {
    workers_.clear();
    ready("a");
    ready("b");
    EXPECT_EQ(machine_->phase(), Phase::kRunning);
  };
  const Time first = ticks_until_lost();
  EXPECT_LT(first, config_.lost_after + Time(1000));
  come_back();
  EXPECT_LT(ticks_until_lost(), config_.lost_after + Time(1000)) << "the second one is noticed as soon";
  come_back();
  EXPECT_GT(ticks_until_lost(), config_.lost_after * 2 - Time(400));
  come_back();
  EXPECT_GT(ticks_until_lost(), config_.lost_after * 4 - Time(400));
  for (int i = 0; i < 8; ++i) {
    come_back();
    EXPECT_LE(ticks_until_lost(), Time(61000));
  }
}

}  // namespace
}  // namespace rekindle::protocol
