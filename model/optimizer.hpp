// Inside the room: the optimizer on its device. On a CPU the one-pass loops of update.hpp run over the
// arenas; on a GPU the piece of the summed gradient is copied there and the same formulas run as LibTorch
// operators.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <span>
#include <vector>

#include "model/model.hpp"

namespace rekindle::model {

class Optimizer {
 public:
  explicit Optimizer(const ModelConfig& config) : config_(config) {}
  // `arenas`: parameters, then those of optimizer_arenas(). Elements [first, first + sum.size()).
  void update(const std::vector<at::Tensor>& arenas, std::size_t first, std::span<const float> sum,
              float scale, double lr) const;

 private:
  void update_on_cpu(const std::vector<std::span<float>>& pieces, std::span<const float> sum, float scale,
                     double lr) const;
  // `g` holds the summed gradient and is overwritten.
  void update_on_device(const std::vector<at::Tensor>& pieces, const at::Tensor& g, float scale,
                        double lr) const;

  ModelConfig config_;
};

}  // namespace rekindle::model
