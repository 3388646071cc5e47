#include "optim/average.hpp"

#include <algorithm>
#include <cstddef>

#include "base/each_width.hpp"

namespace rekindle::optim {
namespace {

REKINDLE_EACH_WIDTH
void move_towards(float weight, float* __restrict average, const float* __restrict values, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) average[i] = moved_towards(average[i], values[i], weight);
}

}  // namespace

void average(double decay, std::span<float> average, std::span<const float> values) {
  if (decay == 0)
    std::ranges::copy(values, average.begin());
  else
    move_towards(static_cast<float>(1 - decay), average.data(), values.data(), values.size());
}

}  // namespace rekindle::optim
