// Whether a stop still has time for the step in flight.
#include "protocol/stop_plan.hpp"

#include <gtest/gtest.h>

#include "protocol/generation.hpp"

namespace rekindle::protocol {
namespace {

TEST(StopPlan, TheFirstRequestDecidesHowItEnds_TheNearestLimitHolds) {
  StopPlan stop;
  EXPECT_FALSE(stop);
  EXPECT_EQ(stop.exit_code(75), 75);
  EXPECT_TRUE(stop.ask({130, "Ctrl-C", Time(0)}, Time(100)));
  EXPECT_FALSE(stop.ask({75, "SIGUSR1", Time(500)}, Time(200)));
  EXPECT_FALSE(stop.ask({75, "SIGTERM", Time(900)}, Time(300)));
  EXPECT_EQ(stop.exit_code(75), 130);
  EXPECT_EQ(stop.until, Time(700));
}

TEST(StopPlan, AStepThatEndsInTime_IsFinished) {
  StopPlan stop;
  stop.step_made(Time(400), Time(1000));
  EXPECT_FALSE(stop.is_too_short_for_a_step(Time(1000), Time(100))) << "no stop was requested";
  stop.ask({75, "SIGUSR1", Time(500)}, Time(1000));
  EXPECT_FALSE(stop.is_too_short_for_a_step(Time(1000), Time(100)));
  EXPECT_TRUE(stop.is_too_short_for_a_step(Time(1000), Time(101))) << "the write would end too late";
  EXPECT_TRUE(stop.is_too_short_for_a_step(Time(1400), Time(100))) << "the last moment";
}

TEST(StopPlan, WithoutALimitOrAKnownStep_ItWaits) {
  StopPlan unlimited, new_run;
  unlimited.step_made(Time(100000), Time(0));
  unlimited.ask({75, "rekindle stop", Time(0)}, Time(0));
  EXPECT_FALSE(unlimited.is_too_short_for_a_step(Time(1000000), Time(0)));
  new_run.ask({75, "SIGUSR1", Time(500)}, Time(0));
  EXPECT_FALSE(new_run.is_too_short_for_a_step(Time(499), Time(0)));
  EXPECT_TRUE(new_run.is_too_short_for_a_step(Time(500), Time(0)));
}

TEST(PastGenerations, TheLastSixteen_AreRemembered) {
  PastGenerations past;
  for (std::uint64_t n = 1; n <= 17; ++n) {
    Generation generation;
    generation.id = {1, n};
    generation.members = {"t" + std::to_string(n)};
    past.remember(generation);
  }
  EXPECT_EQ(past.members_of({1, 1}), nullptr);
  ASSERT_NE(past.members_of({1, 2}), nullptr);
  EXPECT_EQ(past.members_of({1, 17})->front(), "t17");
}

TEST(StopPlan, BrokenInvariant_IsFound) {
  StopPlan stop;
  EXPECT_NO_THROW(stop.check());
  stop.until = Time(5);
  EXPECT_THROW(stop.check(), std::logic_error) << "nobody has asked";
  stop.ask({75, "SIGUSR1", Time(5)}, Time(0));
  EXPECT_NO_THROW(stop.check());
  stop = {};
  stop.cause = StopCause::kTooFewTrainers;
  EXPECT_THROW(stop.check(), std::logic_error);
}

}  // namespace
}  // namespace rekindle::protocol
