// Internal to the module: the models as lists of layers, and their initial values.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "model/layers.hpp"
#include "model/layout.hpp"

namespace rekindle::model {

// Views of an arena, one per tensor of the layout.
std::vector<at::Tensor> tensor_views(const Layout& layout, const at::Tensor& arena);

// The layers up to the logits, over views of the parameters.
Network make_network(const ModelConfig& config, const std::vector<at::Tensor>& parameters);

// torchvision's initial values, each tensor from a generator of its own keyed by (seed, tensor index).
void initialize(const ModelConfig& config, const Layout& layout, const std::vector<at::Tensor>& parameters);

}  // namespace rekindle::model
