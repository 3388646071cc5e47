// Internal to the module: the rows of the table of models.
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

}  // namespace rekindle::model
