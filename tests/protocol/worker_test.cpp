// The decisions of the worker: which orders it follows, what it sends to a new coordinator, how it fills its
// slots.
#include <gtest/gtest.h>

#include <csignal>
#include <optional>

#include "base/text.hpp"
#include "effects.hpp"
#include "protocol/wire.hpp"
#include "protocol/worker.hpp"

namespace rekindle::protocol {
namespace {

class WorkerTest : public ::testing::Test {
 protected:
  WorkerTest() {
    config_.worker = "w";
    config_.directory_inode = 7;
    machine_.emplace(config_, now_);
  }
  std::vector<WorkerEffect> feed(const WorkerEvent& event) { return machine_->on(now_, event); }
  // Connects and registers with the coordinator of `term`. Returns the registration.
  Registration meet(std::uint64_t term) {
    feed(TermSeen{term});
    const auto registrations = of<SendRegistration>(feed(Connected{term}));
    EXPECT_EQ(registrations.size(), 1U);
    for (const StartTrainer& start : of<StartTrainer>(feed(Welcomed{term, ""}))) trainer_ = start.trainer;
    return registrations.empty() ? Registration{} : registrations[0].registration;
  }
  std::vector<WorkerEffect> say(const FromTrainer& message) {
    return feed(OwnTrainerReported{trainer_, read_report(encode(message)).value()});
  }
  void ready() { say(TrainerReady{trainer_, "h", "cpu", "{}", {}, 1}); }
  std::vector<WorkerEffect> order(std::uint64_t term, const ToTrainer& message) {
    return feed(OrderedForTrainer{term, trainer_, read_order(encode(message)).value()});
  }
  // The time until another trainer is started.
  Time restarted_after() {
    for (Time waited(0); waited < Time(200000); waited += Time(100), now_ += Time(100)) {
      for (const StartTrainer& start : of<StartTrainer>(feed(WorkerTick{}))) {
        trainer_ = start.trainer;
        return waited;
      }
    }
    return Time(-1);
  }

  WorkerConfig config_;
  Time now_{1000};
  std::optional<Worker> machine_;
  std::string trainer_;
};

TEST_F(WorkerTest, StartsItsTrainersOnceItIsWelcome) {
  EXPECT_TRUE(of<StartTrainer>(feed(WorkerTick{})).empty());
  meet(1);
  EXPECT_FALSE(trainer_.empty());
}

TEST_F(WorkerTest, ObeysTheHighestTermThatItHasSeenAndNoOther) {
  meet(2);
  ready();
  EXPECT_EQ(of<PassOn>(order(2, Abort{{2, 1}})).size(), 1U);
  EXPECT_TRUE(of<PassOn>(order(1, Abort{{1, 1}})).empty());
  feed(TermSeen{3});
  EXPECT_TRUE(of<PassOn>(order(2, Abort{{2, 1}})).empty());  // term 3 has been seen
  EXPECT_TRUE(of<Connect>(feed(TermSeen{2})).empty());
}

TEST_F(WorkerTest, AmongManyTrainersItsHeartbeatsComeLessOften) {
  meet(1);
  ready();
  const auto beats_in_10_s = [&] {
    int beats = 0;
    for (const Time end = now_ + Time(10000); now_ < end; now_ += Time(100))
      beats += static_cast<int>(of<SendBeat>(feed(WorkerTick{})).size());
    return beats;
  };
  const auto start_among = [&](std::size_t trainers) {
    Start start;
    start.generation = {1, 1};
    start.members = std::vector<Member>(trainers);
    order(1, start);
  };
  EXPECT_EQ(beats_in_10_s(), 20);
  start_among(1000);
  EXPECT_EQ(beats_in_10_s(), 20);
  start_among(4096);
  EXPECT_EQ(beats_in_10_s(), 8);
  start_among(2);
  EXPECT_EQ(beats_in_10_s(), 20);
}

TEST_F(WorkerTest, NewCoordinator_ReceivesTheGenerationThePauseAndTheShards) {
  meet(1);
  ready();
  Start start;
  start.generation = {1, 4};
  start.members = std::vector<Member>{{trainer_, {}}};
  order(1, start);
  say(ShardWritten{{1, 4}, trainer_, 7, 0, "s", "t", "d", 1});
  feed(Disconnected{1});
  say(Paused{{1, 4}, trainer_, true, 9, PauseReason::kExchangeFailed, 1, {}, ""});
  const Registration registration = meet(2);
  EXPECT_EQ(registration.directory_inode, 7U);
  ASSERT_EQ(registration.trainers.size(), 1U);
  EXPECT_EQ(registration.trainers[0].started->generation, (GenerationId{1, 4}));
  EXPECT_EQ(registration.trainers[0].parked->held_step, 9U);
  EXPECT_EQ(registration.trainers[0].written.at(0).step, 7U);
}

// A state computed from a changed one must not be committed by a new coordinator.
TEST_F(WorkerTest, StateThatChangedInMemory_ReportedUntilTheRunHasGoneBack) {
  meet(1);
  ready();
  const auto failed = [&](std::uint64_t step, bool changed) {
    say(ShardFailed{{1, 1}, trainer_, step, "why", changed});
  };
  failed(10, true);
  failed(11, false);
  say(ShardWritten{{1, 1}, trainer_, 12, 0, "s", "t", "d", 1});
  feed(Disconnected{1});
  const auto state = meet(2).trainers.at(0);
  ASSERT_EQ(state.failed.size(), 1U);
  EXPECT_EQ(state.failed[0].step, 10U);
  EXPECT_EQ(state.written.at(0).step, 12U);

  Start start;
  start.generation = {2, 1};
  start.step = 12;
  start.sources = {0};
  start.members = std::vector<Member>{{trainer_, {}}};
  order(2, start);
  feed(Disconnected{2});
  EXPECT_EQ(meet(3).trainers.at(0).failed.size(), 1U);  // the run continues with the changed state
  start.generation = {3, 1};
  start.sources.clear();
  start.step = 4;
  order(3, start);
  feed(Disconnected{3});
  EXPECT_TRUE(meet(4).trainers.at(0).failed.empty());
}

TEST_F(WorkerTest, PausedInAnOlderGeneration_DoesNotCountForTheNewer) {
  meet(1);
  ready();
  Start start;
  start.generation = {1, 1};
  order(1, start);
  start.generation = {1, 2};
  order(1, start);
  say(Paused{{1, 1}, trainer_, true, 9, PauseReason::kAborted, -1, {}, ""});
  feed(Disconnected{1});
  EXPECT_FALSE(meet(2).trainers.at(0).parked);
}

TEST_F(WorkerTest, StepsWithoutACoordinator_SentToTheNextOne) {
  meet(1);
  ready();
  feed(Disconnected{1});
  for (std::uint64_t step = 1; step <= 3; ++step)
    say(StepDone{.generation = {1, 1}, .step = step, .trainers = 1});
  feed(TermSeen{2});
  feed(Connected{2});
  EXPECT_EQ(of<SendReport>(feed(Welcomed{2, ""})).size(), 3U);
}

// The worker looks at the name alone, so what it cannot read reaches the process that uses the message.
TEST_F(WorkerTest, MessagesThatItDoesNotRemember_PassedOnAsTheyCame) {
  meet(1);
  ready();
  for (const std::string text : {R"({"type":"step-done","body":{"of":"a later build"}})", "{", ""}) {
    const auto report = read_report(text);
    ASSERT_TRUE(report) << text;
    const auto sent = of<SendReport>(feed(OwnTrainerReported{trainer_, *report}));
    ASSERT_EQ(sent.size(), 1U) << text;
    EXPECT_EQ(sent[0].message, text);
  }
  for (const std::string text : {R"({"type":"abort","body":7})", "{"}) {
    const auto passed = of<PassOn>(feed(OrderedForTrainer{1, trainer_, read_order(text).value()}));
    ASSERT_EQ(passed.size(), 1U) << text;
    EXPECT_EQ(passed[0].message, text);
  }
}

TEST_F(WorkerTest, MalformedMessageThatItWouldRemember_IsAnError) {
  for (const char* name :
       {"trainer-ready", "parked", "trainer-beat", "shard-begun", "shard-written", "shard-failed"})
    EXPECT_FALSE(read_report(str(R"({"type":")", name, R"(","body":{}})"))) << name;
  EXPECT_FALSE(read_order(R"({"type":"start","body":{}})"));
}

TEST_F(WorkerTest, StartPassedOn_HasTheRankOfItsTrainer) {
  meet(1);
  ready();
  Start start;
  start.generation = {1, 1};
  start.members = std::vector<Member>(3);
  start.rank = 2;
  const auto passed = of<PassOn>(order(1, start));
  ASSERT_EQ(passed.size(), 1U);
  const auto copy = decode<ToTrainer>(passed[0].message);
  ASSERT_TRUE(copy);
  EXPECT_EQ(std::get<Start>(*copy).rank, 2);
  EXPECT_EQ(std::get<Start>(*copy).members.size(), 3U);
}

TEST_F(WorkerTest, CrashedTrainer_StartedAgainLaterEachTimeButAKilledOneAtOnce) {
  meet(1);
  feed(OwnTrainerEnded{trainer_, true, SIGKILL});
  EXPECT_LE(restarted_after(), Time(200));
  std::vector<Time> waits;
  for (int i = 0; i < 3; ++i) {
    feed(OwnTrainerEnded{trainer_, true, SIGSEGV});
    waits.push_back(restarted_after());
  }
  EXPECT_EQ(waits, (std::vector<Time>{Time(1000), Time(2000), Time(4000)}));
}

TEST_F(WorkerTest, KilledBeforeItMadeAStepAgainAndAgain_StartedAgainLaterEachTime) {
  meet(1);
  std::vector<Time> waits;
  const auto kill = [&] {
    feed(OwnTrainerEnded{trainer_, true, SIGKILL});
    waits.push_back(restarted_after());
  };
  for (int i = 0; i < 5; ++i) kill();
  ready();
  Start start;
  start.generation = {1, 1};
  start.step = 7;
  order(1, start);
  say(TrainerBeat{trainer_, TrainerPhase::kComputing, {1, 1}, 8, 1, -1, 0});
  kill();
  EXPECT_EQ(waits, (std::vector<Time>{Time(100), Time(100), Time(100), Time(1000), Time(2000), Time(100)}));
}

TEST_F(WorkerTest, WrongData_NotStartedAgainUnlessOneHasBeenReadyBefore) {
  meet(1);
  ready();
  feed(OwnTrainerEnded{trainer_, true, SIGKILL});
  ASSERT_NE(restarted_after(), Time(-1));
  feed(OwnTrainerEnded{trainer_, false, 78});
  EXPECT_EQ(restarted_after(), Time(1000));
  machine_.emplace(config_, now_);
  meet(1);
  feed(OwnTrainerEnded{trainer_, false, 78});
  EXPECT_EQ(restarted_after(), Time(-1));
}

TEST_F(WorkerTest, CoordinatorThatNeverAnswers_BeginsAnew) {
  feed(TermSeen{1});
  feed(Connected{1});
  std::vector<LeaveRun> left;
  for (const Time end = now_ + config_.welcome_limit + Time(300); now_ < end && left.empty();
       now_ += Time(100))
    left = of<LeaveRun>(feed(WorkerTick{}));
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].exit_code, 1);  // exit code 1, so that its supervisor starts another worker
}

TEST_F(WorkerTest, TrainerThatQuitOrCannotWorkHere_NotStartedAgain) {
  meet(1);
  ready();
  order(1, Quit{});
  feed(OwnTrainerEnded{trainer_, false, 0});
  EXPECT_EQ(restarted_after(), Time(-1));
}

TEST_F(WorkerTest, TrainerThatNeverGetsReady_Killed) {
  meet(1);
  std::size_t ends = 0;
  for (const Time end = now_ + config_.warm_up_limit + Time(200); now_ < end && ends == 0; now_ += Time(100))
    ends += of<KillTrainer>(feed(WorkerTick{})).size();
  EXPECT_EQ(ends, 1U);
}

TEST_F(WorkerTest, Refused_Leaves) {
  feed(TermSeen{1});
  feed(Connected{1});
  const auto left = of<LeaveRun>(feed(Welcomed{1, "another build"}));
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].exit_code, 78);
}

TEST_F(WorkerTest, AloneForTooLong_Leaves) {
  meet(1);
  feed(Disconnected{1});
  now_ += Time(3600000);
  EXPECT_TRUE(of<LeaveRun>(feed(WorkerTick{})).empty());  // the time of a suspension does not count
  std::size_t left = 0;
  for (const Time end = now_ + config_.alone_limit + Time(200); now_ < end && left == 0; now_ += Time(100))
    left += of<LeaveRun>(feed(WorkerTick{})).size();
  EXPECT_EQ(left, 1U);
}

}  // namespace
}  // namespace rekindle::protocol
