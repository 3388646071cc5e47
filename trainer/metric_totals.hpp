// The loss and the metrics of a step or of an evaluation, summed over all micro-batches and ranks. They
// travel as fixed-point numbers, so that the order of the additions does not matter.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "exchange/exchange.hpp"
#include "protocol/trainer_messages.hpp"
#include "trainer/task.hpp"

namespace rekindle::trainer {

// The loss is the first sum of a header, and the task's metrics follow.
inline constexpr std::size_t kMostMetrics = exchange::kMostSums - 1;

// Limits of what one call adds. The sums of a step stay far below the limit of an int64.
inline constexpr double kLossUnit = 4294967296.0, kLossLimit = 1e6;   // 2^32
inline constexpr double kMetricUnit = 1048576.0, kMetricLimit = 1e9;  // 2^20

// A loss that is not finite counts as kLossLimit.
void add_loss(exchange::StepSums& to, double loss, std::uint64_t count);
// A metric that has a value that is not finite or beyond the limit is not reported.
void add_metrics(exchange::StepSums& to, std::span<const MetricSum> metrics);

class MetricTotals {
 public:
  void add(const exchange::StepSums& sums);

  MetricSum loss() const { return sums_[0]; }
  // The means of the metrics that have values. `names`: Task::metrics().
  protocol::Metrics means(const std::vector<std::string>& names) const;

 private:
  std::uint32_t not_finite_ = 0;
  std::array<MetricSum, exchange::kMostSums> sums_;
};

}  // namespace rekindle::trainer
