#include "optim/clip.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/random.hpp"

namespace rekindle::optim {
namespace {

std::vector<float> values(std::size_t count) {
  Rng rng(7);
  std::vector<float> all(count);
  for (float& each : all) each = static_cast<float>(rng.unit()) - 0.5F;
  return all;
}

TEST(SquaredNorm, AnySplitGivesTheSameBits) {
  const std::vector<float> all = values(16 * 1000 + 5);
  SquaredNorm whole;
  whole.add(all);
  Rng rng(8);
  for (int round = 0; round < 50; ++round) {
    SquaredNorm parts;
    for (std::size_t first = 0; first < all.size();) {
      const std::size_t count = std::min(16 * (1 + rng.below(200)), all.size() - first);
      parts.add(std::span(all).subspan(first, count));
      first += count;
    }
    EXPECT_EQ(parts.value(), whole.value());
  }
}

TEST(SquaredNorm, IsTheSumOfSquares) {
  const std::vector<float> all = values(100003);
  long double expected = 0;
  for (const float each : all) expected += static_cast<long double>(each) * each;
  SquaredNorm norm;
  norm.add(all);
  EXPECT_NEAR(norm.value(), static_cast<double>(expected), 1e-12 * static_cast<double>(expected));
}

TEST(SquaredNorm, LargeGradientsDoNotOverflow) {
  const std::vector<float> all(1024, std::numeric_limits<float>::max());
  SquaredNorm norm;
  norm.add(all);
  EXPECT_TRUE(std::isfinite(norm.value()));
}

TEST(SquaredNorm, OneElementThatIsNotFiniteIsSeen) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    for (const std::size_t place : {0, 17, 1023}) {
      std::vector<float> all(1024, 1);
      all[place] = bad;
      SquaredNorm norm;
      norm.add(all);
      EXPECT_FALSE(std::isfinite(norm.value()));
    }
  }
}

// torch.nn.utils.clip_grad_norm_: max_norm / (total_norm + 1e-6), at most 1.
TEST(ClipFactor, LimitsTheNorm) {
  EXPECT_EQ(clip_factor(0, 1), 1);
  EXPECT_EQ(clip_factor(0.5, 1), 1);
  EXPECT_DOUBLE_EQ(clip_factor(4, 1), 1 / 4.000001);
}

}  // namespace
}  // namespace rekindle::optim
