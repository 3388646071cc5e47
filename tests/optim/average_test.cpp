#include "optim/average.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "../device/odd_floats.hpp"

namespace rekindle::optim {
namespace {

using device::testing::draw;
using device::testing::Floats;
using device::testing::kCount;
using device::testing::same_bits;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A mask of attention, as a buffer. The elements are in every place of a vector of the processor.
TEST(Average, ElementsThatAreTheSameInfinity_Stay) {
  Floats mean = draw(1), values = draw(2);
  for (std::size_t i = 0; i < kCount; i += 3) mean[i] = values[i] = i % 2 == 0 ? kInfinity : -kInfinity;
  const Floats before = mean;
  average(0.9, mean, values);
  for (std::size_t i = 0; i < kCount; ++i) {
    if (i % 3 == 0)
      EXPECT_EQ(mean[i], before[i]) << i;
    else
      EXPECT_TRUE(std::isfinite(mean[i])) << i;
  }
}

TEST(Average, OtherElements_HaveTheBitsOfTheFormula) {
  Floats mean = draw(1);
  const Floats values = draw(2);
  mean[0] = -0.0F;  // and 0 - -0 is 0
  Floats expected = mean;
  const float weight = static_cast<float>(1 - 0.9);
  for (std::size_t i = 0; i < kCount; ++i) expected[i] += weight * (values[i] - expected[i]);
  average(0.9, mean, values);
  EXPECT_TRUE(same_bits(mean, expected));

  const std::vector<float> odd = {-0.0F, 0, 1, -kInfinity, kInfinity, 1};
  std::vector<float> moved = {0, -0.0F, kInfinity, kInfinity, 1, 1};
  std::vector<float> by_formula = moved;
  for (std::size_t i = 0; i < odd.size(); ++i) by_formula[i] += weight * (odd[i] - by_formula[i]);
  average(0.9, moved, odd);
  for (std::size_t i = 0; i < odd.size(); ++i) {
    EXPECT_EQ(std::isnan(moved[i]), std::isnan(by_formula[i])) << i;
    EXPECT_EQ(std::signbit(moved[i]), std::signbit(by_formula[i])) << i;
    EXPECT_TRUE(moved[i] == by_formula[i] || std::isnan(moved[i])) << i;
  }
}

}  // namespace
}  // namespace rekindle::optim
