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

// Sums have multiples of 2^-50, and one call adds at most 2^50 (1.1e15): 2^27 calls stay below the limit of
// 128 bits.
inline constexpr double kSumUnit = 0x1p50, kSumLimit = 0x1p50;

// A loss or a metric that has a value that is not finite or beyond the limit has no mean.
void add_loss(exchange::StepSums& to, double loss, std::uint64_t count);
void add_metrics(exchange::StepSums& to, std::span<const MetricSum> metrics);

class MetricTotals {
 public:
  void add(const exchange::StepSums& sums);

  std::uint64_t count() const { return sums_[0].count; }
  // Of the loss; NaN if there is none.
  double mean_loss() const { return mean(0); }
  // The means of the metrics that have values. `names`: Task::metrics().
  protocol::Metrics means(const std::vector<std::string>& names) const;

 private:
  double mean(std::size_t sum) const;

  std::uint32_t not_finite_ = 0;
  std::array<MetricSum, exchange::kMostSums> sums_;
};

}  // namespace rekindle::trainer
