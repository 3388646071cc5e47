#include "optim/clip.hpp"

#include <algorithm>

#include "base/each_width.hpp"

namespace rekindle::optim {
namespace {

constexpr std::size_t kLanes = 16;

// `blocks` times 16 floats.
REKINDLE_EACH_WIDTH
void add_squares(double* __restrict sums, const float* __restrict x, std::size_t blocks) {
  double local[kLanes];
  for (std::size_t i = 0; i < kLanes; ++i) local[i] = sums[i];
  for (std::size_t b = 0; b < blocks; ++b, x += kLanes) {
    for (std::size_t i = 0; i < kLanes; ++i) {
      const double value = x[i];
      local[i] += value * value;
    }
  }
  for (std::size_t i = 0; i < kLanes; ++i) sums[i] = local[i];
}

}  // namespace

void SquaredNorm::add(std::span<const float> piece) {
  const std::size_t blocks = piece.size() / kLanes;
  add_squares(sums_.data(), piece.data(), blocks);
  for (std::size_t i = blocks * kLanes; i < piece.size(); ++i) {
    const double value = piece[i];
    sums_[i % kLanes] += value * value;
  }
}

double SquaredNorm::value() const {
  double sum = 0;
  for (const double each : sums_) sum += each;
  return sum;
}

double clip_factor(double norm, double limit) { return std::min(1.0, limit / (norm + 1e-6)); }

}  // namespace rekindle::optim
