#include "trainer/metric_totals.hpp"

#include <gtest/gtest.h>

#include <cmath>
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
  for (const double sum : {kNan, kInfinity, -kInfinity, 1.1 * kSumLimit})
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
  for (const std::size_t i : {0, 1}) EXPECT_TRUE(one.sums[i].sum == other.sums[i].sum) << i;
}

MetricTotals losses_of(const std::vector<MetricSum>& losses) {
  exchange::StepSums sums;
  for (const MetricSum& loss : losses) add_loss(sums, loss.sum, loss.count);
  MetricTotals totals;
  totals.add(sums);
  return totals;
}

// Squared errors of prices, and differences that are far below 1.
TEST(MetricTotals, LargeAndSmallLosses_KeepTheirValues) {
  EXPECT_EQ(losses_of({{4e10, 1}, {8e10, 1}}).mean_loss(), 6e10);
  EXPECT_EQ(losses_of({{8 * 2e5, 8}, {8 * 4e5, 8}}).mean_loss(), 3e5);
  EXPECT_NEAR(losses_of({{1e-9, 1}, {3e-9, 1}}).mean_loss(), 2e-9, 1e-14);
  EXPECT_EQ(losses_of({{-1e15, 1}, {1e15, 1}, {3, 1}}).mean_loss(), 1);
  EXPECT_EQ(means_of({{{3e12, 1}}, {{-1e12, 1}}}), (protocol::Metrics{{"accuracy", 1e12}}));
}

TEST(MetricTotals, ALossThatIsNotFiniteOrTooLarge_HasNoMean) {
  for (const double loss : {kNan, kInfinity, -kInfinity, 1.1 * kSumLimit}) {
    EXPECT_TRUE(std::isnan(losses_of({{loss, 2}, {1, 1}}).mean_loss())) << loss;
    EXPECT_EQ(losses_of({{loss, 2}, {1, 1}}).count(), 3U);
  }
}

}  // namespace
}  // namespace rekindle::trainer
