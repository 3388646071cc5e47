// Models that share, freeze or spoil their tensors, each as its row says. And rows of numbers, with a number
// to predict for each.
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <rekindle/trainer.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>

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

// A layer that nobody was told of.
struct Loose : Base {
  explicit Loose(const ModelOptions& options) : Base(options), loose(pixels, pixels) {}
  at::Tensor forward(const at::Tensor& images) { return Base::forward(loose(images.flatten(1))); }
  nn::Linear loose;
};

// A leaf that each pass makes anew, as the input of a gradient penalty.
struct Penalized : Base {
  using Base::Base;
  at::Tensor forward(const at::Tensor& images) {
    return Base::forward(images.detach().clone().requires_grad_(is_training()));
  }
};

// Fewer columns than classes, which its loss uses otherwise.
struct Narrow : Base {
  using Base::Base;
  at::Tensor forward(const at::Tensor& images) { return Base::forward(images).narrow(1, 0, 4); }
};

at::Tensor distance(const at::Tensor& outputs, const at::Tensor& targets) {
  return (outputs - targets.unsqueeze(1)).pow(2).mean();
}

// A number for the whole micro-batch.
struct Drawing : Base {
  using Base::Base;
  at::Tensor forward(const at::Tensor& images) { return Base::forward(images) + at::rand({1}); }
};

// A test appends the word to a copy of this program, in place of mending the program and building it again.
bool is_mended() {
  constexpr std::string_view kWord = "mended";
  std::ifstream program("/proc/self/exe", std::ios::binary);
  program.seekg(-static_cast<std::streamoff>(kWord.size()), std::ios::end);
  return std::string(std::istreambuf_iterator<char>(program), {}) == kWord;
}

at::Tensor scalar_if_mended(const at::Tensor& outputs, const at::Tensor&) {
  const at::Tensor each = outputs.pow(2).sum(1);
  return is_mended() ? each.mean() : each;
}

struct NoEvaluation : Base {
  using Base::Base;
  at::Tensor forward(const at::Tensor& images) {
    if (!is_training()) throw std::runtime_error("only half a batch");
    return Base::forward(images);
  }
};

struct Throwing : Base {
  using Base::Base;
  at::Tensor forward(const at::Tensor& images) { return Base::forward(images.narrow(1, 0, 7)); }
};

struct Unbuilt : Base {
  explicit Unbuilt(const ModelOptions& options) : Base(options) { throw 1; }
};

struct Crashing : Base {
  explicit Crashing(const ModelOptions& options) : Base(options) { std::raise(SIGSEGV); }
};

constexpr int kFeatures = 5;

// The numbers of a row are channels of an image of one pixel; the last one is the number to predict.
class Table final : public rekindle::data::Dataset {
 public:
  explicit Table(const char* hash, int classes = 1) {
    info_.kind = "table";
    info_.channels = kFeatures + 1;
    info_.image_size = 1;
    info_.classes = classes;
    info_.train_count = 64;
    info_.test_count = 16;
    info_.content_hash = hash;
  }
  const rekindle::data::DatasetInfo& info() const override { return info_; }
  Status read(rekindle::data::Split split, std::size_t index, const rekindle::data::TransformConfig&,
              std::uint64_t, rekindle::data::Batch& batch, std::size_t place) const override {
    const std::size_t row = split == rekindle::data::Split::kTrain ? index : 64 + index;
    const std::span<float> to = rekindle::data::image_of(batch, place);
    for (std::size_t i = 0; i < kFeatures; ++i) {
      to[i] = static_cast<float>((row * (i + 3)) % 17) / 17.0F;
      to[kFeatures] += static_cast<float>(i) * to[i];
    }
    if (row == 40 && info_.classes > 1) batch.labels[place] = info_.classes;
    return {};
  }

 private:
  rekindle::data::DatasetInfo info_;
};

// The loss has the outputs alone, so the number to predict is one of them.
struct Regression : nn::Module {
  explicit Regression(const ModelOptions&) { register_module("line", line = nn::Linear(kFeatures, 1)); }
  at::Tensor forward(const at::Tensor& images) {
    const at::Tensor rows = images.flatten(1);
    return at::cat({line(rows.narrow(1, 0, kFeatures)), rows.narrow(1, kFeatures, 1)}, 1);
  }
  nn::Linear line = nullptr;
};

at::Tensor squared_error(const at::Tensor& outputs, const at::Tensor&) {
  return at::mse_loss(outputs.select(1, 0), outputs.select(1, 1));
}

rekindle::data::DatasetRow table(const char* name, decltype(rekindle::data::DatasetRow::open) open) {
  return {name,   "rows of numbers", rekindle::data::SampleKind::kImages, rekindle::data::Augment::kOff, open,
          nullptr};
}

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
      row<Loose>("loose"),
      row<Penalized>("penalized"),
      row<NoEvaluation>("no-evaluation"),
      row<Throwing>("throwing"),
      row<Unbuilt>("unbuilt"),
      row<Crashing>("crashing"),
      row<Regression>("regression", squared_error),
      row<Narrow>("narrow", distance),
      row<Drawing>("drawing", distance),
      row<Base>("mendable", scalar_if_mended),
      row<Base>("no-scalar", [](const at::Tensor& outputs, const at::Tensor&) { return outputs.sum(1); })};
  ModelRow picky = row<Base>("picky");
  picky.check = [](const ModelOptions& options) -> Status {
    std::ignore = options.own.at("depth");
    return {};
  };
  rekindle::Extensions all;
  all.models.push_back(&picky);
  for (const ModelRow& each : rows) all.models.push_back(&each);
  using Opened = rekindle::Result<std::unique_ptr<rekindle::data::Dataset>>;
  const rekindle::data::DatasetRow tables[] = {
      table("table", [](const auto&, const auto&) -> Opened { return std::make_unique<Table>("1"); }),
      table("no-hash", [](const auto&, const auto&) -> Opened { return std::make_unique<Table>(""); }),
      table("wrong-label",
            [](const auto&, const auto&) -> Opened { return std::make_unique<Table>("2", 10); })};
  for (const rekindle::data::DatasetRow& each : tables) all.datasets.push_back(&each);
  return rekindle::trainer_main(argc, argv, all);
}
