// The models that a trainer can build. To add one: a file in model/nets/ with its row, and the row's place in
// models() (model/models.cpp).
#pragma once

#include <torch/nn/modules/container/any.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace rekindle::model {

// What a model is built from.
struct ModelOptions {
  int classes = 10, channels = 3, image_size = 224;
  std::optional<double> dropout;                                            // nullopt: the model's own
  int layers = 4, heads = 4, width = 256, context = 256, vocabulary = 256;  // gpt
};

enum class SampleKind { kImages, kText };

struct ModelRow {
  const char* name;
  const char* what;  // for people
  SampleKind samples;
  Status (*check)(const ModelOptions&);
  // Its initial values come from LibTorch's default generator. forward() gets images [images, channels, side,
  // side] or tokens [contexts, length], and returns a row of `classes` or `vocabulary` logits for each image
  // or token.
  torch::nn::AnyModule (*make)(const ModelOptions&);
};

std::span<const ModelRow* const> models();
std::vector<std::string> names_of_models();
// An unknown name is ExitCode::kUsage, and the error names the nearest one.
Result<const ModelRow*> find_model(const std::string& name);

// For the rows: an error unless images have at least `smallest` pixels a side.
Status check_images(const ModelOptions& options, const char* model, int smallest);

extern const ModelRow kVggModels[8], kResNetModels[4], kMnistCnnModel, kGptModel;

}  // namespace rekindle::model
