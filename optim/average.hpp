// The exponential moving average of a model's values (--ema), as torch.optim.swa_utils.get_ema_multi_avg_fn
// has it.
#pragma once

#include <span>

namespace rekindle::optim {

// average += (1 - decay) * (values - average), element by element. A decay of 0 copies the values, bit for
// bit.
void average(double decay, std::span<float> average, std::span<const float> values);

}  // namespace rekindle::optim
