#include "board/totals.hpp"

#include <algorithm>
#include <cmath>

namespace rekindle::board {
namespace {
constexpr double kFirst = 0.001;  // seconds
}  // namespace

double Durations::upper_bound(std::size_t bucket) { return std::ldexp(kFirst, static_cast<int>(bucket)); }

void Durations::add(double seconds, std::uint64_t times) {
  if (!std::isfinite(seconds) || seconds < 0) return;
  count_ += times;
  sum_ += seconds * static_cast<double>(times);
  for (std::size_t i = 0; i < kBuckets; ++i) {
    if (seconds > upper_bound(i)) continue;
    counts_[i] += times;
    return;
  }
}

std::uint64_t Durations::up_to(std::size_t bucket) const {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i <= bucket && i < kBuckets; ++i) sum += counts_[i];
  return sum;
}

void Totals::begin(const nlohmann::json& curve, std::uint64_t lost) {
  const auto steps = curve.find("step");
  const auto values = curve.find(curve.contains("value") ? "value" : "mean");
  if (steps == curve.end() || values == curve.end()) return;
  std::uint64_t before = 0;
  for (std::size_t i = 0; i < std::min(steps->size(), values->size()); ++i) {
    const auto step = (*steps)[i].get<std::uint64_t>();
    steps_.add((*values)[i].get<double>() / kMillisecondsPerSecond, step - std::min(step, before));
    before = step;
  }
  if (steps_.count() > 0) steps_.add(steps_.sum() / static_cast<double>(steps_.count()), lost);
}

}  // namespace rekindle::board
