// Internal to the module: weights that a model uses and has not registered.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "base/result.hpp"

namespace rekindle::model {

// A module that register_module() was not called for computes, and is never trained nor saved. It is looked
// for in the first two micro-batches of a process: a tensor that forward() makes anew each time, as the input
// of a gradient penalty, is another one in the second, and may be there.
class UnregisteredWeights {
 public:
  // Before the backward pass. Error (kConfig): in both, `loss` depends on the same trainable tensor that is
  // not in `registered`.
  Status look(const at::Tensor& loss, const std::vector<at::Tensor>& registered);

 private:
  std::size_t looks_ = 0;
  std::vector<at::Tensor> found_;  // held, so that none made later gets its address
};

}  // namespace rekindle::model
