// Each rule of the fault policy by itself.
#include "protocol/fault_policy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rekindle::protocol {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(StepCrashes, ThreeGenerationsAtOneStep_AreTooMany) {
  StepCrashes crashes{3};
  for (int i = 0; i < 2; ++i) {
    crashes.crashed("signal 11", 7);
    crashes.crashed("signal 11", 7);  // two trainers of one generation count once
    EXPECT_FALSE(crashes.generation_ended(7, 7));
  }
  crashes.crashed("signal 8", 7);
  const auto stuck = crashes.generation_ended(7, 7);
  ASSERT_TRUE(stuck);
  EXPECT_EQ(stuck->step, 7U);
  EXPECT_EQ(stuck->how, "signal 8");
}

TEST(StepCrashes, AStepThatWasMade_IsForgotten) {
  StepCrashes crashes{3};
  for (std::uint64_t step = 0; step < 20; ++step) {
    crashes.crashed("signal 11", step);
    EXPECT_FALSE(crashes.generation_ended(step, step + 1)) << "each generation made one more step";
  }
}

TEST(StepCrashes, GenerationsWithoutACrash_AndForgivenOnes_DoNotCount) {
  StepCrashes crashes{3};
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(crashes.generation_ended(3, 3));
    crashes.crashed("signal 11", 3);
    crashes.forgive();
    EXPECT_FALSE(crashes.generation_ended(3, 3));
  }
}

TEST(Kills, TwentyOfEachTrainerWithoutAStep_AreTooMany) {
  Kills kills;
  for (int i = 0; i < 39; ++i) EXPECT_FALSE(kills.killed("a", 5, 2)) << i;
  EXPECT_EQ(kills.killed("a", 5, 2), 5U);
  EXPECT_FALSE(kills.killed("a", 6, 2)) << "a step was made: the count begins again";
}

TEST(Kills, OrderedByTheCoordinator_DoNotCount) {
  Kills kills;
  for (int i = 0; i < 19; ++i) EXPECT_FALSE(kills.killed("a", 5, 1)) << i;
  kills.ordered("b");
  EXPECT_FALSE(kills.killed("b", 5, 1));
  EXPECT_TRUE(kills.killed("b", 5, 1)) << "one order, one kill";
}

TEST(HostCrashes, OneHostAlone_IsAtFaultTheThirdTime) {
  HostCrashes crashes;
  for (std::uint64_t generation = 1; generation <= 3; ++generation) {
    for (int trainer = 0; trainer < 4; ++trainer) {
      EXPECT_EQ(crashes.crashed("a", {1, generation}, Time(0), Time(-1), true), generation == 3)
          << "generations count";
    }
  }
}

TEST(HostCrashes, OnesLongAgo_DoNotCount) {
  HostCrashes crashes;
  const Time memory = HostCrashes::forgotten_after(Time(1000));
  EXPECT_EQ(HostCrashes::forgotten_after(memory), 2 * memory);
  Time now{0};
  const auto crash = [&](const std::string& host, std::uint64_t generation) {
    return crashes.crashed(host, {1, generation}, now, now - memory, true);
  };
  for (std::uint64_t generation = 1; generation <= 9; ++generation, now += memory)
    EXPECT_FALSE(crash("a", generation)) << generation;
  EXPECT_FALSE(crash("b", 10));
  EXPECT_FALSE(crash("b", 11));
  EXPECT_TRUE(crash("b", 12)) << "those of a are forgotten";
}

TEST(HostCrashes, WhereOthersCrashToo_OrThereAreNoOthers_NoHostIsAtFault) {
  HostCrashes everywhere, alone;
  for (std::uint64_t i = 0; i < 5; ++i) {
    EXPECT_FALSE(everywhere.crashed(i % 2 == 0 ? "a" : "b", {1, i}, Time(0), Time(-1), true));
    EXPECT_FALSE(alone.crashed("a", {1, i}, Time(0), Time(-1), false));
  }
}

TEST(StartTries, AHostThatIsQuickToCrash_DoesNotUseUpTheOthersTries) {
  StartTries tries;
  const auto slots = [](const std::string&) { return 1; };
  for (int i = 0; i < 50; ++i) tries.crashed("bad", "signal 4", false);
  EXPECT_THAT(tries.used_up(slots), ElementsAre("bad"));
  EXPECT_FALSE(tries.all_used_up(slots, 2)) << "the other host has tries left";
  tries.crashed("good", "signal 9", false);
  EXPECT_THAT(tries.used_up(slots), ElementsAre("bad"));
  tries.crashed("good", "signal 9", true);  // refused: the worker does not try again
  EXPECT_TRUE(tries.all_used_up(slots, 2));
  EXPECT_EQ(tries.take_out("bad"), "signal 4");
  EXPECT_THAT(tries.used_up(slots), ElementsAre("good"));
}

TEST(StartTries, HostsWithoutSlotsOfTheRun_AreNotJudged) {
  StartTries tries;
  tries.crashed("helper", "signal 4", false);
  EXPECT_THAT(tries.used_up([](const std::string&) { return 0; }), IsEmpty());
}

TEST(StartTries, ReportedErrorOfATrainer_IsTheResultOfTheRun) {
  StartTries tries;
  EXPECT_EQ(tries.end(EndCause::kNobodyCame, "no trainer came up").line, "no trainer came up");
  tries.crashed("a", "signal 4", false);
  EXPECT_EQ(tries.end(EndCause::kNobodyCame, "no trainer came up").line, "no trainer came up: signal 4");
  EXPECT_EQ(tries.end(EndCause::kNobodyCame, "no trainer came up").exit_code, 70);
  tries.reported("b", {78, "no such file", "look again"});
  const Finish end = tries.end(EndCause::kNobodyCame, "no trainer came up");
  EXPECT_EQ(end.line, "no trainer came up: no such file");
  EXPECT_EQ(end.exit_code, 78);
  EXPECT_EQ(end.hint, "look again");
}

TEST(Links, FailuresCount_WhicheverEndIsNamedFirst) {
  Links links;
  EXPECT_EQ(links.failed("a", "b"), 1);
  EXPECT_EQ(links.failed("b", "a"), 2);
  EXPECT_EQ(links.failed("b", "c"), 1);
  EXPECT_EQ(links.failures_of("b"), 3);
  EXPECT_EQ(links.failures_of("a"), 2);
  links.forget("a");
  EXPECT_EQ(links.failures_of("b"), 1);
  links.clear();
  EXPECT_EQ(links.failures_of("b"), 0);
}

TEST(OddStates, TheSecondTime_ATrainerIsReplaced) {
  OddStates odd;
  EXPECT_FALSE(odd.differed("a"));
  EXPECT_FALSE(odd.differed("b"));
  EXPECT_TRUE(odd.differed("a"));
}

TEST(FaultPolicy, WhateverHappens_KeepsItsInvariants) {
  FaultPolicy faults;
  EXPECT_NO_THROW(faults.check());
  faults.step_crashes.crashed("how", 3);
  faults.step_crashes.generation_ended(3, 3);
  faults.kills.killed("a", 3, 2);
  faults.links.failed("b", "a");
  EXPECT_NO_THROW(faults.check());
  faults.step_crashes.generation_ended(3, 9);
  faults.links.forget("a");
  EXPECT_NO_THROW(faults.check());
  faults.links.failed("a", "a");
  EXPECT_THROW(faults.check(), std::logic_error) << "a link of one worker";
}

TEST(SilenceLimit, DoublesWithALossThatNoStepCameBefore) {
  const Time given(5000), hang(600000);
  SilenceLimit silence;
  EXPECT_FALSE(silence.lost_at(7, Time(10000), given));
  EXPECT_FALSE(silence.lost_at(7, Time(10200), given)) << "another host of the same rack";
  EXPECT_EQ(silence.after(given, hang), given);
  EXPECT_FALSE(silence.lost_at(8, Time(20000), given)) << "a step was made";
  EXPECT_TRUE(silence.lost_at(8, Time(30000), given));
  EXPECT_EQ(silence.after(given, hang), Time(10000));
  for (int i = 0; i < 10; ++i) silence.lost_at(8, Time(100000 * (i + 1)), given);
  EXPECT_EQ(silence.after(given, hang), Time(60000));
  EXPECT_EQ(silence.after(given, Time(30000)), Time(15000)) << "a longer silence would count as a hang";
  EXPECT_EQ(silence.after(Time(120000), hang), Time(120000)) << "what a person gives";
}

}  // namespace
}  // namespace rekindle::protocol
