#include "trainer/metric_totals.hpp"

#include <algorithm>
#include <cmath>

namespace rekindle::trainer {

using exchange::StepSums;

void add_loss(StepSums& to, double loss, std::uint64_t count) {
  const double limited = std::isfinite(loss) ? std::clamp(loss, -kLossLimit, kLossLimit) : kLossLimit;
  to.sums[0].sum += std::llround(limited * kLossUnit);
  to.sums[0].count += count;
}

void add_metrics(StepSums& to, std::span<const MetricSum> metrics) {
  for (std::size_t i = 0; i < std::min(metrics.size(), kMostMetrics); ++i) {
    if (std::abs(metrics[i].sum) <= kMetricLimit) {  // false for NaN, too
      to.sums[i + 1].sum += std::llround(metrics[i].sum * kMetricUnit);
    } else {
      to.not_finite |= 1U << (i + 1);
    }
    to.sums[i + 1].count += metrics[i].count;
  }
}

void MetricTotals::add(const StepSums& sums) {
  not_finite_ |= sums.not_finite;
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const double unit = i == 0 ? kLossUnit : kMetricUnit;
    sums_[i].sum += static_cast<double>(sums.sums[i].sum) / unit;
    sums_[i].count += sums.sums[i].count;
  }
}

protocol::Metrics MetricTotals::means(const std::vector<std::string>& names) const {
  protocol::Metrics means;
  for (std::size_t i = 0; i < std::min(names.size(), kMostMetrics); ++i) {
    const MetricSum& sum = sums_[i + 1];
    if (sum.count > 0 && (not_finite_ >> (i + 1) & 1U) == 0)
      means[names[i]] = sum.sum / static_cast<double>(sum.count);
  }
  return means;
}

}  // namespace rekindle::trainer
