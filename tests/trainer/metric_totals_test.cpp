#include "trainer/metric_totals.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace rekindle::trainer {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
const std::vector<std::string> kNames = {"accuracy", "top5"};

protocol::Metrics means_of(const std::vector<std::vector<MetricSum>>& calls) {
  exchange::StepSums sums;
  for (const auto& metrics : calls) add_metrics(sums, metrics);
  MetricTotals totals;
  totals.add(sums);
  return totals.means(kNames);
}

TEST(MetricTotals, Means_AreOfAllCalls) {
  EXPECT_EQ(means_of({{{1, 2}, {2, 2}}, {{2, 2}, {2, 2}}}),
            (protocol::Metrics{{"accuracy", 0.75}, {"top5", 1}}));
}

TEST(MetricTotals, MetricWithoutValues_IsNotReported) {
  EXPECT_EQ(means_of({{{1, 2}}}), (protocol::Metrics{{"accuracy", 0.5}}));
  EXPECT_EQ(means_of({}), protocol::Metrics());
}

TEST(MetricTotals, MetricThatIsNotFiniteOrTooLarge_IsNotReported) {
  for (const double sum : {kNan, kInfinity, -kInfinity, 1.1 * kMetricLimit})
    EXPECT_EQ(means_of({{{sum, 1}, {1, 1}}, {{1, 1}, {1, 1}}}), (protocol::Metrics{{"top5", 1}})) << sum;
}

TEST(MetricTotals, TheOrderOfTheSums_DoesNotMatter) {
  const std::vector<MetricSum> values = {{1e8 + 0.1, 1}, {-1e8, 1}, {1e-6, 1}, {0.3, 1}};
  const auto sum_in = [&](const std::vector<int>& order) {
    exchange::StepSums sums;
    for (const int i : order) {
      add_loss(sums, values[static_cast<std::size_t>(i)].sum / 1000, 1);
      add_metrics(sums, std::span(values).subspan(static_cast<std::size_t>(i), 1));
    }
    return sums;
  };
  const exchange::StepSums one = sum_in({0, 1, 2, 3}), other = sum_in({3, 1, 0, 2});
  EXPECT_EQ(one.sums[0].sum, other.sums[0].sum);
  EXPECT_EQ(one.sums[1].sum, other.sums[1].sum);
}

TEST(MetricTotals, LossThatIsNotFinite_CountsAsTheLimit) {
  exchange::StepSums sums;
  add_loss(sums, kNan, 2);
  MetricTotals totals;
  totals.add(sums);
  EXPECT_EQ(totals.loss().sum, kLossLimit);
  EXPECT_EQ(totals.loss().count, 2U);
}

}  // namespace
}  // namespace rekindle::trainer
