// A GPT (Radford et al. 2019): a decoder with pre-normalization, learned positions and GELU. Names and
// initial values are those of nanoGPT (github.com/karpathy/nanoGPT, model.py), but the output layer (lm_head)
// is a parameter of its own: nanoGPT shares it with the embedding (transformer.wte).
#include <torch/nn/init.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <cmath>
#include <memory>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "model/nets/nets.hpp"
#include "model/ops.hpp"

namespace rekindle::model {
namespace {

namespace nn = torch::nn;

nn::LayerNorm layer_norm(std::int64_t width) { return nn::LayerNorm(nn::LayerNormOptions({width})); }

// Causal self-attention with several heads. Dropouts are of the weights and of the output.
class Attention final : public nn::Module {
 public:
  explicit Attention(const ModelOptions& options)
      : heads_(options.heads), dropout_(options.dropout.value_or(0)) {
    register_module("c_attn", c_attn_ = ops::Linear(options.width, 3 * options.width));
    register_module("c_proj", c_proj_ = ops::Linear(options.width, options.width));
  }

  at::Tensor forward(const at::Tensor& x) {
    const std::int64_t samples = x.size(0), tokens = x.size(1), width = x.size(2);
    // [3, samples, heads, tokens, width / heads]: queries, keys and values
    const at::Tensor qkv =
        c_attn_(x).view({samples, tokens, 3, heads_, width / heads_}).permute({2, 0, 3, 1, 4});
    const at::Tensor y = at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {},
                                                          is_training() ? dropout_ : 0, /*is_causal=*/true);
    return at::dropout(c_proj_(y.transpose(1, 2).reshape(x.sizes())), dropout_, is_training());
  }

 private:
  std::int64_t heads_;
  double dropout_;
  ops::Linear c_attn_ = nullptr, c_proj_ = nullptr;
};

class Mlp final : public nn::Module {
 public:
  explicit Mlp(const ModelOptions& options) : dropout_(options.dropout.value_or(0)) {
    register_module("c_fc", c_fc_ = ops::Linear(options.width, 4 * options.width));
    register_module("c_proj", c_proj_ = ops::Linear(4 * options.width, options.width));
  }

  at::Tensor forward(const at::Tensor& x) {
    return at::dropout(c_proj_(at::gelu(c_fc_(x))), dropout_, is_training());
  }

 private:
  double dropout_;
  ops::Linear c_fc_ = nullptr, c_proj_ = nullptr;
};

class Block final : public nn::Module {
 public:
  explicit Block(const ModelOptions& options) {
    register_module("ln_1", ln_1_ = layer_norm(options.width));
    attention_ = register_module("attn", std::make_shared<Attention>(options));
    register_module("ln_2", ln_2_ = layer_norm(options.width));
    mlp_ = register_module("mlp", std::make_shared<Mlp>(options));
  }

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = x + attention_->forward(ln_1_(x));
    return y + mlp_->forward(ln_2_(y));
  }

 private:
  nn::LayerNorm ln_1_ = nullptr, ln_2_ = nullptr;
  std::shared_ptr<Attention> attention_;
  std::shared_ptr<Mlp> mlp_;
};

class Gpt final : public nn::Module {
 public:
  explicit Gpt(const ModelOptions& options) : dropout_(options.dropout.value_or(0)) {
    const auto transformer = register_module("transformer", std::make_shared<nn::Module>());
    transformer->register_module("wte", wte_ = nn::Embedding(options.vocabulary, options.width));
    transformer->register_module("wpe", wpe_ = nn::Embedding(options.context, options.width));
    const auto h = transformer->register_module("h", std::make_shared<nn::Module>());
    for (int i = 0; i < options.layers; ++i)
      blocks_.push_back(h->register_module(str(i), std::make_shared<Block>(options)));
    transformer->register_module("ln_f", ln_f_ = layer_norm(options.width));
    lm_head_ = register_module("lm_head",
                               ops::Linear(nn::LinearOptions(options.width, options.vocabulary).bias(false)));
    initialize(options.layers);
  }

  at::Tensor forward(const at::Tensor& tokens) {
    const at::Tensor positions = wpe_->weight.narrow(0, 0, tokens.size(1));
    at::Tensor x = at::dropout(wte_(tokens) + positions, dropout_, is_training());
    for (const auto& block : blocks_) x = block->forward(x);
    return lm_head_(ln_f_(x));
  }

 private:
  // normal(0, 0.02) and biases of 0. Each of the 2 * layers sums into the residual stream gets its share of
  // the variance.
  void initialize(int layers) {
    for (const auto& parameter : named_parameters()) {
      const std::string_view name = parameter.key();
      if (name.ends_with("bias")) {
        nn::init::zeros_(parameter.value());
      } else if (parameter->dim() == 2) {
        const double residual = name.ends_with("c_proj.weight") ? 1 / std::sqrt(2.0 * layers) : 1;
        nn::init::normal_(parameter.value(), 0, 0.02 * residual);
      }
    }
  }

  double dropout_;
  nn::Embedding wte_ = nullptr, wpe_ = nullptr;
  std::vector<std::shared_ptr<Block>> blocks_;
  nn::LayerNorm ln_f_ = nullptr;
  ops::Linear lm_head_ = nullptr;
};

Status check(const ModelOptions& options) {
  const auto positive = [](int value, const char* what, const char* option) -> Status {
    if (value >= 1) return {};
    return fail(ExitCode::kConfig, str("a gpt cannot have ", what, " ", value),
                str("use ", option, " 1 or more"));
  };
  REKINDLE_CHECK(positive(options.layers, "layers", "--layers"));
  REKINDLE_CHECK(positive(options.heads, "heads", "--heads"));
  REKINDLE_CHECK(positive(options.width, "width", "--width"));
  REKINDLE_CHECK(positive(options.context, "context", "--context"));
  REKINDLE_CHECK(positive(options.vocabulary, "vocabulary", "--vocabulary"));
  if (options.width % options.heads != 0)
    return fail(ExitCode::kConfig,
                str("a width of ", options.width, " cannot be split among ", options.heads, " heads"),
                "use a --width that is a multiple of --heads");
  return check_dropout(options);
}

nn::AnyModule make(const ModelOptions& options) { return nn::AnyModule(std::make_shared<Gpt>(options)); }

}  // namespace

const ModelRow kGpt = ModelRow{"gpt",
                               "GPT: a decoder that predicts the next byte of a text",
                               data::SampleKind::kText,
                               check,
                               make,
                               "--layers, --heads, --width"}
                          .recorded();

}  // namespace rekindle::model
