#include "model/update.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/random.hpp"

namespace rekindle::model {
namespace {

constexpr std::size_t kFloats = 1000;  // not a multiple of any vector width

std::vector<float> random_floats(std::uint64_t key, float low, float high) {
  Rng rng(key);
  std::vector<float> out(kFloats);
  for (float& element : out) element = low + (high - low) * rng.unit();
  return out;
}

void expect_same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
}

// One operation at a time: `volatile` keeps the compiler from fusing, reordering or vectorising.
float mul(float a, float b) {
  volatile float c = a * b;
  return c;
}
float add(float a, float b) {
  volatile float c = a + b;
  return c;
}

TEST(Update, SgdHasTheBitsOfTheScalarFormula) {
  const SgdStep step{.scale = 0.125F, .lr = 0.01F, .momentum = 0.9F, .weight_decay = 5e-4F};
  auto p = random_floats(1, -1, 1), m = random_floats(2, -1, 1);
  const auto sum = random_floats(3, -8, 8);
  auto expected_p = p, expected_m = m;
  for (std::size_t i = 0; i < kFloats; ++i) {
    const float g = add(mul(step.scale, sum[i]), mul(step.weight_decay, p[i]));
    expected_m[i] = add(mul(step.momentum, m[i]), g);
    expected_p[i] = add(p[i], -mul(step.lr, expected_m[i]));
  }
  sgd_update(step, p, m, sum);
  expect_same_bits(p, expected_p);
  expect_same_bits(m, expected_m);
}

TEST(Update, SgdWithoutMomentumHasTheBitsOfMomentumZero) {
  const SgdStep step{.scale = 0.125F, .lr = 0.01F, .momentum = 0, .weight_decay = 5e-4F};
  auto p = random_floats(1, -1, 1), q = p, m = std::vector<float>(kFloats);
  const auto sum = random_floats(3, -8, 8);
  sgd_update(step, p, {}, sum);
  sgd_update(step, q, m, sum);
  expect_same_bits(p, q);
}

TEST(Update, AdadeltaHasTheBitsOfTheScalarFormula) {
  const AdadeltaStep step{.scale = 0.25F, .lr = 0.7F, .weight_decay = 1e-3F};
  auto p = random_floats(1, -1, 1), s = random_floats(2, 0, 1), a = random_floats(3, 0, 1e-3F);
  const auto sum = random_floats(4, -8, 8);
  auto expected_p = p, expected_s = s, expected_a = a;
  for (std::size_t i = 0; i < kFloats; ++i) {
    const float g = add(mul(step.scale, sum[i]), mul(step.weight_decay, p[i]));
    expected_s[i] = add(mul(step.rho, s[i]), mul(mul(step.one_minus_rho, g), g));
    const volatile float root_a = std::sqrt(add(a[i], step.eps)),
                         root_s = std::sqrt(add(expected_s[i], step.eps));
    const volatile float ratio = root_a / root_s;
    const float d = mul(ratio, g);
    expected_a[i] = add(mul(step.rho, a[i]), mul(mul(step.one_minus_rho, d), d));
    expected_p[i] = add(p[i], -mul(step.lr, d));
  }
  adadelta_update(step, p, s, a, sum);
  expect_same_bits(p, expected_p);
  expect_same_bits(s, expected_s);
  expect_same_bits(a, expected_a);
}

TEST(Update, PiecesHaveTheBitsOfTheWhole) {
  const SgdStep step{.scale = 0.125F, .lr = 0.01F, .momentum = 0.9F, .weight_decay = 5e-4F};
  const auto start = random_floats(1, -1, 1), sum = random_floats(3, -8, 8);
  auto whole = start, whole_m = std::vector<float>(kFloats);
  sgd_update(step, whole, whole_m, sum);
  for (std::size_t cut = 0; cut <= kFloats; cut += 16) {
    auto p = start, m = std::vector<float>(kFloats);
    const auto update = [&](std::size_t first, std::size_t count) {
      sgd_update(step, std::span(p).subspan(first, count), std::span(m).subspan(first, count),
                 std::span(sum).subspan(first, count));
    };
    update(cut, kFloats - cut);
    update(0, cut);
    expect_same_bits(p, whole);
    expect_same_bits(m, whole_m);
  }
}

}  // namespace
}  // namespace rekindle::model
