// Models that share, freeze or spoil their tensors, each as its row says.
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <cstdio>
#include <memory>
#include <rekindle/trainer.hpp>

namespace {

namespace nn = torch::nn;
using rekindle::Status;
using rekindle::model::ModelOptions;
using rekindle::model::ModelRow;

// Two linear layers over the pixels, of which the first one has as many outputs as inputs.
struct Base : nn::Module {
  explicit Base(const ModelOptions& options)
      : pixels(static_cast<std::int64_t>(options.channels) * options.image_size * options.image_size) {
    register_module("first", first = nn::Linear(pixels, pixels));
    register_module("head", head = nn::Linear(pixels, options.classes));
  }
  at::Tensor forward(const at::Tensor& images) { return head(at::relu(first(images.flatten(1)))); }

  const std::int64_t pixels;
  nn::Linear first = nullptr, head = nullptr;
};

struct Tied : Base {
  explicit Tied(const ModelOptions& options) : Base(options) {
    register_module("again", again);
    again->register_parameter("weight", first->weight);
  }
  at::Tensor forward(const at::Tensor& images) {
    return Base::forward(at::linear(images.flatten(1), again->named_parameters()["weight"]));
  }
  std::shared_ptr<nn::Module> again = std::make_shared<nn::Module>();
};

struct Frozen : Base {
  explicit Frozen(const ModelOptions& options) : Base(options) {
    std::printf("a model that talks, without an end of the line");
    first->weight.set_requires_grad(false);
  }
};

// The state of the optimizer would have the same name.
struct Momentous : Base {
  explicit Momentous(const ModelOptions& options) : Base(options) {
    auto other = std::make_shared<nn::Module>();
    other->register_module("first", nn::Linear(pixels, pixels));
    register_module("momentum", other);
  }
};

struct Renormed : Base {
  explicit Renormed(const ModelOptions& options) : Base(options) {
    register_module("table", table = nn::Embedding(nn::EmbeddingOptions(4, pixels).max_norm(0.01)));
  }
  at::Tensor forward(const at::Tensor& images) {
    return Base::forward(images.flatten(1) + table(at::zeros({images.size(0)}, at::kLong)));
  }
  nn::Embedding table = nullptr;
};

// The root has a value at zero, and no derivative.
struct Steep : Base {
  using Base::Base;
  at::Tensor forward(const at::Tensor& images) {
    return Base::forward(images) + at::sqrt(at::sum(0 * head->bias));
  }
};

struct Doubled : Base {
  explicit Doubled(const ModelOptions& options) : Base(options) { to(at::kDouble); }
};

struct Overlapping : Base {
  explicit Overlapping(const ModelOptions& options) : Base(options) {
    register_parameter("row", first->weight.detach().narrow(0, 1, 1));
  }
};

struct Replacing : Base {
  using Base::Base;
  at::Tensor forward(const at::Tensor& images) {
    if (is_training()) head->weight.set_data(head->weight.detach().clone());
    return Base::forward(images);
  }
};

// Two values for one element: the one that is written last stays.
struct Putting : Base {
  using Base::Base;
  at::Tensor forward(const at::Tensor& images) {
    return Base::forward(images.put(at::zeros({2}, at::kLong), at::ones({2})));
  }
};

template <class Model>
ModelRow row(const char* name, at::Tensor (*loss)(const at::Tensor&, const at::Tensor&) = nullptr) {
  return {name,
          "a model of a test",
          rekindle::data::SampleKind::kImages,
          [](const ModelOptions&) -> Status { return {}; },
          [](const ModelOptions& options) { return nn::AnyModule(std::make_shared<Model>(options)); },
          "",
          loss};
}

}  // namespace

int main(int argc, char** argv) {
  const ModelRow rows[] = {
      row<Tied>("tied"),
      row<Frozen>("frozen"),
      row<Renormed>("renormed"),
      row<Doubled>("doubled"),
      row<Momentous>("momentous"),
      row<Steep>("steep"),
      row<Overlapping>("overlapping"),
      row<Replacing>("replacing"),
      row<Putting>("putting"),
      row<Base>("no-scalar", [](const at::Tensor& outputs, const at::Tensor&) { return outputs.sum(1); })};
  rekindle::Extensions all;
  for (const ModelRow& each : rows) all.models.push_back(&each);
  return rekindle::trainer_main(argc, argv, all);
}
