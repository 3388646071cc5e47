// The exponential moving average of a model's values (--ema), as torch.optim.swa_utils.get_ema_multi_avg_fn
// has it.
#pragma once

#include <cfloat>
#include <cmath>
#include <span>

#include "base/everywhere.hpp"

namespace rekindle::optim {

// One element of the average, on the host and on a GPU: average + weight * (value - average). If both are the
// same infinity, as in a mask that is a buffer, the average stays: inf - inf would be NaN.
REKINDLE_EVERYWHERE float moved_towards(float average, float value, float weight) {
  const bool stays = average == value && std::fabs(average) > FLT_MAX;
  const float moved = average + weight * (value - average);
  return stays ? average : moved;
}

// average = moved_towards(average, values, 1 - decay), element by element. A decay of 0 copies the values,
// bit for bit.
void average(double decay, std::span<float> average, std::span<const float> values);

}  // namespace rekindle::optim
