// Internal to the module: the optimizers as LibTorch operators, for GPUs.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "optim/optimizer.hpp"

namespace rekindle::model {

// Floats that go to a GPU at a time: large enough for the bus, small beside the state.
inline constexpr std::size_t kStagingFloats = std::size_t{16} << 20;

// The formulas are those of optim/NAME.cpp. `tensors`: equal pieces of the parameters and of the optimizer's
// states. `sum`: that piece of the summed gradient, on their device; it is overwritten. `options` are valid.
void update_on_device(optim::Options options, const optim::Step& step, const std::vector<at::Tensor>& tensors,
                      const at::Tensor& sum);

}  // namespace rekindle::model
