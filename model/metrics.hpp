// What a model's answers are measured by, besides the loss.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "trainer/task.hpp"

namespace rekindle::model {

// "accuracy", and for images of more than five classes "top5", which only evaluations measure. None for a
// single class: a model that predicts numbers.
std::vector<std::string> metrics_of(data::SampleKind samples, std::int64_t classes);

// The class of the largest output: [targets], int64. `outputs`: [targets, classes].
at::Tensor predicted_by(const at::Tensor& outputs);
// The number of targets that are predicted, or that one of the five largest outputs names: a scalar that may
// still be computed. `targets`: [targets], int64; data::kNoLabel is never predicted.
at::Tensor correct_of(const at::Tensor& predicted, const at::Tensor& targets);
at::Tensor in_top5_of(const at::Tensor& outputs, const at::Tensor& targets);

}  // namespace rekindle::model
