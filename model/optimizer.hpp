// Internal to the module: the optimizer on its device. On a CPU the loops of optim/ run over the arenas; on a
// GPU the piece of the summed gradient is copied there, and the same formulas run as LibTorch operators.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "optim/optimizer.hpp"

namespace rekindle::model {

class DeviceOptimizer {
 public:
  // `options` are valid.
  explicit DeviceOptimizer(const optim::Options& options);
  // `arenas`: parameters, then those of the optimizer's states. Elements [first, first + sum.size()).
  void update(const std::vector<at::Tensor>& arenas, std::size_t first, std::span<const float> sum,
              const optim::Step& step) const;

 private:
  optim::Options options_;  // complete: with the optimizer's own eps
  std::unique_ptr<optim::Optimizer> on_cpu_;
};

}  // namespace rekindle::model
