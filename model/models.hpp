// The models that a run can train, as a table. A new built-in model is a file in model/nets/ (copy
// mnist_cnn.cpp), the declaration of its row in model/nets/nets.hpp, and its place in the lists of
// model/models.cpp and app/known_names.cpp. A program of its own passes its rows along as `more`
// (docs/extending.md).
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "data/dataset.hpp"

// Callers that only ask for names do without LibTorch's headers.
namespace at {
class Tensor;
}
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
  // The model's own, from --model-options NAME=VALUE,...: only names of ModelRow::options.
  std::map<std::string, std::string> own = {};
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
  // The options that other models do not have: of --layers, --heads and --width, and its own, as in
  // "--width, kernels, depth". Without its name here, an option is refused.
  const char* options = "";
  // The loss of a batch: a scalar, the mean over its targets. `outputs`: what forward() returned, float32,
  // [targets, classes]; `targets`: int64, one for each row, or data::kNoLabel, to be left out. With another
  // number of columns than classes, no accuracy is reported. nullptr: cross-entropy.
  at::Tensor (*loss)(const at::Tensor& outputs, const at::Tensor& targets) = nullptr;
  // A GPU may record the operators of a micro-batch once and repeat them: forward() and `loss` start the same
  // ones with the same arguments in each micro-batch, read no value on the host, and keep nothing there.
  // Faster.
  bool recordable = false;
  // false: the outputs do not say which class a sample has (a contrastive model, one that predicts numbers),
  // so that no accuracy is reported, whatever the number of columns is.
  bool has_accuracy = true;

  // This row, recordable.
  constexpr ModelRow recorded() const {
    ModelRow row = *this;
    row.recordable = true;
    return row;
  }
  // This row, without an accuracy.
  constexpr ModelRow without_accuracy() const {
    ModelRow row = *this;
    row.has_accuracy = false;
    return row;
  }
};
using ModelRows = std::span<const ModelRow* const>;

ModelRows models();  // the built-in rows
// In the table's order. `more`: rows beside the built-in ones.
std::vector<std::string> names_of_models(ModelRows more = {});

// An unknown name is an error (kUsage) with the nearest name.
Result<const ModelRow*> find_model(const std::string& name, ModelRows more = {});

// A number among a model's own options; `otherwise` if it was not given. Error (kConfig): another text.
Result<double> own_number(const ModelOptions& options, const std::string& name, double otherwise);

// For check() of a row. Refuses images smaller than `smallest` pixels, and fewer than one class or channel.
Status check_images(const ModelOptions& options, int smallest);

// Refuses a dropout outside of [0, 1).
Status check_dropout(const ModelOptions& options);

// For a model whose dropouts cannot be chosen: refuses a dropout other than 0. `own` says what the model has.
Status check_no_dropout(const ModelOptions& options, const char* own);

}  // namespace rekindle::model
