#include "trainer/metric_totals.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rekindle::trainer {

using exchange::StepSums;

namespace {

void add(StepSums& to, std::size_t index, double sum, std::uint64_t count) {
  if (std::abs(sum) <= kSumLimit) {  // false for NaN, too
    to.sums[index].sum += static_cast<exchange::Int128>(std::rint(sum * kSumUnit));
  } else {
    to.not_finite |= 1U << index;
  }
  to.sums[index].count += count;
}

}  // namespace

void add_loss(StepSums& to, double loss, std::uint64_t count) { add(to, 0, loss, count); }

void add_metrics(StepSums& to, std::span<const MetricSum> metrics) {
  for (std::size_t i = 0; i < std::min(metrics.size(), kMostMetrics); ++i)
    add(to, i + 1, metrics[i].sum, metrics[i].count);
}

void MetricTotals::add(const StepSums& sums) {
  not_finite_ |= sums.not_finite;
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    sums_[i].sum += static_cast<double>(sums.sums[i].sum) / kSumUnit;
    sums_[i].count += sums.sums[i].count;
  }
}

double MetricTotals::mean(std::size_t sum) const {
  if (sums_[sum].count == 0 || (not_finite_ >> sum & 1U) != 0)
    return std::numeric_limits<double>::quiet_NaN();
  return sums_[sum].sum / static_cast<double>(sums_[sum].count);
}

protocol::Metrics MetricTotals::means(const std::vector<std::string>& names) const {
  protocol::Metrics means;
  for (std::size_t i = 0; i < std::min(names.size(), kMostMetrics); ++i)
    if (const double value = mean(i + 1); !std::isnan(value)) means[names[i]] = value;
  return means;
}

}  // namespace rekindle::trainer
