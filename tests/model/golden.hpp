// The formulas of tests/oracle/pytorch_golden.py: initial values, images, labels and projections from a hash.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/random.hpp"

namespace rekindle::model::golden {

enum Purpose : std::uint64_t { kValues = 1, kImages, kLabels, kSigns };
constexpr int kSteps = 10;

inline Rng stream(Purpose purpose, std::uint64_t part) {
  return Rng(((static_cast<std::uint64_t>(purpose) << 32) + part) * 0x9e3779b97f4a7c15ULL);
}

// Uniform in [-bound, bound).
inline float uniform(Rng& rng, float bound) { return (rng.unit() * 2 - 1) * bound; }

inline float bound_of(std::span<const std::int64_t> shape) {
  if (shape.size() == 1) return 0.05F;
  std::int64_t fan_in = 1;
  for (const std::int64_t extent : shape.subspan(1)) fan_in *= extent;
  return static_cast<float>(std::sqrt(4.0 / static_cast<double>(fan_in)));
}

inline void fill_uniform(std::span<float> out, Purpose purpose, std::uint64_t part, float bound) {
  Rng rng = stream(purpose, part);
  for (float& element : out) element = uniform(rng, bound);
}

inline std::vector<std::int64_t> labels(std::uint64_t part, std::size_t count) {
  Rng rng = stream(kLabels, part);
  std::vector<std::int64_t> out(count);
  for (std::int64_t& label : out) label = static_cast<std::int64_t>(rng.next() % 10);
  return out;
}

// {norm, four projections on +1/-1 vectors}; of the movement since the start if `initial_bound` is not 0.
inline std::vector<double> summary(std::span<const float> values, std::uint64_t index,
                                   float initial_bound = 0) {
  std::vector<double> out(5);
  Rng signs = stream(kSigns, index), initial = stream(kValues, index);
  for (const float element : values) {
    const double value =
        initial_bound == 0 ? element : static_cast<double>(element) - uniform(initial, initial_bound);
    const std::uint64_t bits = signs.next();
    out[0] += value * value;
    for (std::size_t k = 0; k < 4; ++k) out[k + 1] += value * (1 - 2 * static_cast<int>((bits >> k) & 1));
  }
  out[0] = std::sqrt(out[0]);
  return out;
}

}  // namespace rekindle::model::golden
