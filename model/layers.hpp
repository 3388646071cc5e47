// Internal to the module: the layers of a sequential network, each with its forward and backward pass written
// out in LibTorch's operators. Without autograd there is one place that knows when a gradient is written and
// an activation dropped, and every weight gradient goes straight to where the caller wants it.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/random.hpp"

namespace rekindle::model {

// What a layer keeps from its forward pass for its backward pass.
struct Saved {
  at::Tensor input, other;
};

class Layer {
 public:
  virtual ~Layer() = default;
  // In evaluation `saved` is null: nothing is kept and nothing dropped out. May overwrite `x`.
  virtual at::Tensor forward(at::Tensor x, Saved* saved, Rng& dropout) const = 0;
  // From the output's gradient, which may be overwritten, to the input's (undefined for a network's first
  // layer). Parameter gradients overwrite their places in `gradients`, one contiguous view per tensor of the
  // model's layout.
  virtual at::Tensor backward(at::Tensor dy, Saved saved, std::span<const at::Tensor> gradients) const = 0;
};
using Network = std::vector<std::unique_ptr<Layer>>;

// A layer's weight and bias, and the index of its weight in the model's layout; its bias comes next.
struct LayerParameters {
  at::Tensor weight, bias;
  std::size_t index = 0;
};

// 3x3, stride 1. The first layer of a network computes no input gradient. Activations keep the memory layout
// that they come in.
std::unique_ptr<Layer> conv3x3(LayerParameters parameters, int padding, bool first);
std::unique_ptr<Layer> linear(LayerParameters parameters);
std::unique_ptr<Layer> relu();
std::unique_ptr<Layer> max_pool2();  // 2x2, stride 2
std::unique_ptr<Layer> dropout(double probability);
std::unique_ptr<Layer> adaptive_average(int side);  // to side x side pixels
std::unique_ptr<Layer> channels_last();             // from NCHW to NHWC in memory: faster convolutions
std::unique_ptr<Layer> flatten();                   // to [images, channels * height * width]

}  // namespace rekindle::model
