#include "model/loss.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace rekindle::model {
namespace {

TEST(CrossEntropy, EqualLogitsCostTheLogarithmOfTheClasses) {
  const std::vector<float> logits(10, 3.0F);
  const std::vector<std::int64_t> labels = {0};
  std::vector<float> gradient(10);
  const Loss loss = cross_entropy(logits, labels, gradient, 0);
  EXPECT_NEAR(loss.sum, std::log(10.0), 1e-12);
  EXPECT_EQ(loss.correct, 1);  // the first of equals
  EXPECT_FLOAT_EQ(gradient[0], -0.9F);
  EXPECT_FLOAT_EQ(gradient[9], 0.1F);
}

TEST(CrossEntropy, LargeLogitsDoNotOverflow) {
  const std::vector<float> logits = {1e30F, 0.0F, 0.0F, 1e30F};
  const std::vector<std::int64_t> labels = {0, 0};
  const Loss loss = cross_entropy(logits, labels, {}, 0);
  EXPECT_NEAR(loss.sum / 1e30, 1.0, 1e-6);
  EXPECT_EQ(loss.correct, 1);
}

TEST(CrossEntropy, GradientIsTheSlopeOfTheMeanLoss) {
  std::vector<float> logits = {0.5F, -1.0F, 2.0F, 0.25F, 0.75F, -0.5F};
  const std::vector<std::int64_t> labels = {2, 0};
  std::vector<float> gradient(6);
  cross_entropy(logits, labels, gradient, 0);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    constexpr float kStep = 0x1p-8F;
    auto up = logits, down = logits;
    up[i] += kStep;
    down[i] -= kStep;
    const double slope =
        (cross_entropy(up, labels, {}, 0).sum - cross_entropy(down, labels, {}, 0).sum) / (2 * kStep) / 2;
    EXPECT_NEAR(gradient[i], slope, 1e-5);
  }
}

TEST(CrossEntropy, NonFiniteLogitsGiveANonFiniteLoss) {
  const std::vector<float> logits = {std::nanf(""), 0.0F};
  const std::vector<std::int64_t> labels = {1};
  EXPECT_FALSE(std::isfinite(cross_entropy(logits, labels, {}, 0).sum));
}

}  // namespace
}  // namespace rekindle::model
