// Internal to the module: what the forward and backward pass of a micro-batch leave on the device, where it
// may still be computed.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace rekindle::model {

// `inputs`: [images, channels, side, side] float32, or tokens [contexts, length] int64. `targets`: int64, one
// class for each image, or one token for each input token, or data::kNoLabel. `learned`: how many are not.
struct TrainingBatch {
  at::Tensor inputs, targets;
  std::uint64_t learned = 0;
};

struct Pass {
  at::Tensor loss;  // a scalar
  // A scalar, int64: targets that the model predicts. Undefined if the outputs stand for no classes.
  at::Tensor correct = {};
  std::vector<bool> received = {};  // for each parameter: it has got a gradient
  // Of models with buffers. [elements of all buffers in the gradient memory], bool: the float32 value is
  // another one than before. Then the bytes of the other buffers, before and now, one after the other.
  at::Tensor differs = {}, old_bytes = {}, bytes = {};
};

}  // namespace rekindle::model
