// The phase of a run: what a handler notes counts at once, and advance() finds it.
#include "protocol/phase.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace rekindle::protocol {
namespace {

TEST(RunPhase, BrokenGeneration_CountsAsPausingUntilThePhaseChanges) {
  RunPhase phase(Time(10));
  phase.break_off();  // without effect: nothing runs
  phase.enter(RunningPhase{});
  EXPECT_TRUE(phase.running());
  EXPECT_NO_THROW(phase.check());
  phase.break_off();
  EXPECT_EQ(phase.now(), Phase::kRunning);
  EXPECT_FALSE(phase.running());
  EXPECT_TRUE(phase.pausing());
  EXPECT_THROW(phase.check(), std::logic_error) << "the next event would find a broken generation";
  phase.enter(PausingPhase{Time(20)});
  EXPECT_TRUE(phase.pausing());
  EXPECT_NO_THROW(phase.check());
}

TEST(RunPhase, GenerationThatMayStillRun_IsAdoptedByTheEarliestDeadline) {
  RunPhase phase(Time(10));
  phase.hurry_adoption(Time(1));  // without effect: there is nothing to adopt
  EXPECT_FALSE(phase.adopting());
  phase.adopt(Time(100));
  EXPECT_TRUE(phase.adopting());
  EXPECT_EQ(phase.now(), Phase::kGathering);
  EXPECT_THROW(phase.check(), std::logic_error);
  phase.hurry_adoption(Time(50));
  phase.hurry_adoption(Time(70));
  EXPECT_EQ(phase.get<GatheringPhase>()->adopt_until, Time(50));
  phase.enter(AdoptingPhase{Time(50)});
  EXPECT_TRUE(phase.adopting());
  phase.hurry_adoption(Time(30));
  phase.postpone(Time(5));
  EXPECT_EQ(phase.get<AdoptingPhase>()->until, Time(35));
  EXPECT_NO_THROW(phase.check());
}

TEST(RunPhase, ReportsAreJudgedOnceInAPhase) {
  RunPhase phase(Time(10));
  phase.enter(RunningPhase{});
  EXPECT_FALSE(phase.judge());
  EXPECT_TRUE(phase.judge());
  phase.enter(PausingPhase{Time(1)});
  EXPECT_FALSE(phase.judged());
  EXPECT_FALSE(phase.judge());
  EXPECT_TRUE(phase.judged());
}

}  // namespace
}  // namespace rekindle::protocol
