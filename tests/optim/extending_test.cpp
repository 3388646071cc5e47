// The optimizer and the schedule of docs/extending.md, as they stand there.
#include <gtest/gtest.h>

#include <vector>

#include "optim/optimizer.hpp"
#include "optim/schedule.hpp"

namespace rekindle::optim {

extern const Row kLion;
extern const ScheduleRow kPolynomial;

namespace {

TEST(Extending, TheOptimizerOfThePage_FollowsItsFormula) {
  const Options options{.name = kLion.name, .weight_decay = 0.5, .beta1 = 0.5, .beta2 = 0.75};
  ASSERT_TRUE(kLion.check(options));
  const auto lion = kLion.make(options);
  ASSERT_EQ(lion->states(), std::vector<std::string>{"exp_avg"});
  std::vector<float> p{1, 1, 1}, m{4, -4, 0};
  const std::vector<float> sum{8, -16, 0};
  std::vector<std::span<float>> states{m};
  lion->update({.number = 3, .scale = 0.25F, .learning_rate = 0.5}, p, states, sum);
  EXPECT_EQ(p, (std::vector<float>{0.25F, 1.25F, 0.75F}));  // 1 - 0.5 * (sign + 0.5 * 1)
  EXPECT_EQ(m, (std::vector<float>{3.5F, -4, 0}));          // 0.75 * m + 0.25 * (0.25 * sum)
  Options wrong = options;
  wrong.beta1 = 1;
  EXPECT_FALSE(kLion.check(wrong));
  EXPECT_EQ(option_names(kLion), (std::vector<std::string>{"beta1", "beta2"}));  // no --eps, which may be 0
}

TEST(Extending, TheScheduleOfThePage_FollowsItsFormula) {
  const Schedule schedule{.lr = 2, .length = 100};
  EXPECT_DOUBLE_EQ(kPolynomial.rate(schedule, 50, 0), 0.5);
  EXPECT_DOUBLE_EQ(kPolynomial.rate(schedule, 0, 0), 2);
}

}  // namespace
}  // namespace rekindle::optim
