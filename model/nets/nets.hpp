// Internal to the module: the rows of the table of models, and the checks that their files share.
#pragma once

#include "model/models.hpp"

namespace rekindle::model {

// vgg.cpp
extern const ModelRow kVgg11, kVgg11Bn, kVgg13, kVgg13Bn, kVgg16, kVgg16Bn, kVgg19, kVgg19Bn;
// resnet.cpp
extern const ModelRow kResnet18, kResnet34, kResnet50, kResnet101;
// mnist_cnn.cpp
extern const ModelRow kMnistCnn;
// gpt.cpp
extern const ModelRow kGpt;

// Refuses images smaller than `smallest` pixels, and fewer than one class or channel.
Status check_images(const ModelOptions& options, int smallest);

// Refuses a dropout outside of [0, 1).
Status check_dropout(const ModelOptions& options);

// For a model whose dropouts cannot be chosen: refuses a dropout other than 0. `own` says what the model has.
Status check_no_dropout(const ModelOptions& options, const char* own);

}  // namespace rekindle::model
