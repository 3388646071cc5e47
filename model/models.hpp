// The models that a run can train, as a table. A new model is a file in model/nets/ (copy mnist_cnn.cpp), the
// declaration of its row in model/nets/nets.hpp, and its place in the list of model/models.cpp.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "data/dataset.hpp"

// Callers that only ask for names do without LibTorch's headers.
namespace torch::nn {
class AnyModule;
}

namespace rekindle::model {

// What a model is built from.
struct ModelOptions {
  // Of image models.
  int classes = 10;
  int channels = 3, image_size = 224;  // pixels of each side
  // The probability that training drops an activation; std::nullopt: the model's own.
  std::optional<double> dropout = std::nullopt;
  // Of text models. A head has width / heads features; context is the most tokens of a sample.
  int layers = 4, heads = 4, width = 256, context = 256, vocabulary = 256;
};

struct ModelRow {
  const char* name;
  const char* what;  // one line for people
  // What forward() takes and returns. kImages: float32 [images, channels, image_size, image_size] -> logits
  // [images, classes]. kText: int64 [samples, tokens], tokens <= context -> logits [samples, tokens,
  // vocabulary].
  data::SampleKind samples;
  // Refuses options that the model cannot be built from (kConfig).
  Status (*check)(const ModelOptions& options);
  // `options` have passed check(). The initial values come from LibTorch's default generator. The module is
  // in training mode.
  torch::nn::AnyModule (*make)(const ModelOptions& options);
};

std::span<const ModelRow* const> models();
std::vector<std::string> names_of_models();  // in the table's order

// An unknown name is an error (kUsage) with the nearest name.
Result<const ModelRow*> find_model(const std::string& name);

}  // namespace rekindle::model
