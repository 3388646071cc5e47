#include "optim/schedule.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "optim/exact_math.hpp"

namespace rekindle::optim {
namespace {

TEST(ExactMath, AgreesWithTheCLibrary) {
  for (int i = 0; i <= 1000; ++i) {
    const double x = i / 1000.0;
    EXPECT_NEAR(cos_pi(x), std::cos(std::numbers::pi * x), 1e-15) << x;
  }
  EXPECT_EQ(power(0.5, 0), 1);
  EXPECT_EQ(power(0.5, 10), 1.0 / 1024);
  EXPECT_NEAR(power(0.999, 12345), std::pow(0.999, 12345), 1e-17);
}

// The rates of PyTorch's schedulers, by their formulas.
TEST(Schedules, RatesOfAllKinds) {
  Schedule s{.lr = 2, .length = 100, .step_epochs = 3, .milestones = {2, 5}, .gamma = 0.5};
  const auto rate = [&](const char* name, std::uint64_t step, std::uint64_t epoch) {
    s.name = name;
    EXPECT_TRUE(check_schedule(s));
    return rate_at(s, step, epoch);
  };
  EXPECT_EQ(rate("constant", 70, 7), 2);
  EXPECT_EQ(rate("step", 70, 2), 2);
  EXPECT_EQ(rate("step", 70, 7), 0.5);
  EXPECT_EQ(rate("multi-step", 70, 1), 2);
  EXPECT_EQ(rate("multi-step", 70, 2), 1) << "at the milestone, as MultiStepLR";
  EXPECT_EQ(rate("multi-step", 70, 9), 0.5);
  EXPECT_EQ(rate("exponential", 70, 3), 0.25);
  EXPECT_EQ(rate("linear", 0, 0), 2);
  EXPECT_DOUBLE_EQ(rate("linear", 75, 0), 0.5);
  EXPECT_DOUBLE_EQ(rate("cosine", 0, 0), 2);
  EXPECT_DOUBLE_EQ(rate("cosine", 50, 0), 1);
  EXPECT_NEAR(rate("cosine", 25, 0), 1 + std::cos(std::numbers::pi / 4), 1e-15);
}

TEST(Schedules, WarmUpGrowsToTheRateAndTheRestFollowsIt) {
  const Schedule s{.name = "linear", .lr = 1, .warmup_steps = 10, .length = 110};
  EXPECT_DOUBLE_EQ(rate_at(s, 0, 0), 0.1);
  EXPECT_DOUBLE_EQ(rate_at(s, 9, 0), 1);
  EXPECT_DOUBLE_EQ(rate_at(s, 10, 0), 1);
  EXPECT_DOUBLE_EQ(rate_at(s, 60, 0), 0.5);
}

TEST(Schedules, ALongerRunKeepsItsLastRate) {
  for (const char* name : {"cosine", "linear"}) {
    const Schedule s{.name = name, .lr = 1, .length = 100};
    EXPECT_GT(rate_at(s, 99, 0), 0) << name;
    EXPECT_EQ(rate_at(s, 100, 0), rate_at(s, 99, 0)) << name;
    EXPECT_EQ(rate_at(s, 100000, 0), rate_at(s, 99, 0)) << name;
  }
}

TEST(Schedules, EachHasTheOptionsOfItsRow) {
  EXPECT_TRUE(schedule_has("step", "--lr-step"));
  EXPECT_TRUE(schedule_has("step", "--lr-gamma"));
  EXPECT_FALSE(schedule_has("step", "--lr"));
  EXPECT_FALSE(schedule_has("step", "--milestones"));
  EXPECT_TRUE(schedule_has("multi-step", "--milestones"));
  EXPECT_FALSE(schedule_has("cosine", "--lr-gamma"));
  EXPECT_FALSE(schedule_has("cosinus", "--lr-gamma"));
}

TEST(Schedules, WrongOptionsAreNamed) {
  const auto refused = [](const Schedule& schedule) {
    const Status checked = check_schedule(schedule);
    return checked ? "" : checked.error().line();
  };
  EXPECT_EQ(refused({.name = "cosinus"}), "unknown schedule 'cosinus': did you mean cosine?");
  EXPECT_NE(refused({.name = "multi-step"}).find("without --milestones"), std::string::npos);
  EXPECT_NE(refused({.name = "multi-step", .milestones = {3, 3}}).find("do not ascend"), std::string::npos);
  EXPECT_NE(refused({.warmup_steps = 10, .length = 10}).find("leaves nothing of a run of 10 steps"),
            std::string::npos);
  for (const ScheduleRow& row : schedules())
    EXPECT_EQ(refused({.name = row.name, .milestones = {1}}), "") << row.name;
}

}  // namespace
}  // namespace rekindle::optim
