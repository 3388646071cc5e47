// A decoder of tokens (Radford et al. 2019): learned positions, layer norms before attention and before the
// two linear layers of a block, GELU. The output layer has weights of its own.
#include <torch/nn/init.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <cmath>
#include <vector>

#include "base/text.hpp"
#include "model/models.hpp"
#include "model/ops.hpp"

namespace rekindle::model {
namespace {

namespace nn = torch::nn;

struct Block : nn::Module {
  Block(const ModelOptions& options, double dropout_rate) : heads(options.heads), dropout(dropout_rate) {
    const int width = options.width;
    ln_1 = register_module("ln_1", nn::LayerNorm(nn::LayerNormOptions({width})));
    attention = register_module("attn", std::make_shared<nn::Module>());
    c_attn = attention->register_module("c_attn", nn::Linear(width, 3 * width));
    attn_proj = attention->register_module("c_proj", nn::Linear(width, width));
    ln_2 = register_module("ln_2", nn::LayerNorm(nn::LayerNormOptions({width})));
    mlp = register_module("mlp", std::make_shared<nn::Module>());
    c_fc = mlp->register_module("c_fc", nn::Linear(width, 4 * width));
    mlp_proj = mlp->register_module("c_proj", nn::Linear(4 * width, width));
  }

  at::Tensor attend(const at::Tensor& x) {
    const std::int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
    const auto parts = ops::linear(x, c_attn->weight, c_attn->bias).split(width, 2);
    const auto by_head = [&](const at::Tensor& part) {
      return part.view({batch, length, heads, width / heads}).transpose(1, 2);
    };
    const at::Tensor y =
        at::scaled_dot_product_attention(by_head(parts[0]), by_head(parts[1]), by_head(parts[2]), {},
                                         is_training() ? dropout : 0, /*is_causal=*/true);
    return ops::linear(y.transpose(1, 2).reshape({batch, length, width}), attn_proj->weight, attn_proj->bias);
  }

  at::Tensor forward(at::Tensor x) {
    x = x + at::dropout(attend(ln_1(x)), dropout, is_training());
    const at::Tensor y = at::gelu(ops::linear(ln_2(x), c_fc->weight, c_fc->bias));
    return x + at::dropout(ops::linear(y, mlp_proj->weight, mlp_proj->bias), dropout, is_training());
  }

  const std::int64_t heads;
  const double dropout;
  nn::LayerNorm ln_1{nullptr}, ln_2{nullptr};
  std::shared_ptr<nn::Module> attention, mlp;
  nn::Linear c_attn{nullptr}, attn_proj{nullptr}, c_fc{nullptr}, mlp_proj{nullptr};
};

struct Gpt : nn::Module {
  explicit Gpt(const ModelOptions& options) : dropout(options.dropout.value_or(0)) {
    auto body = register_module("transformer", std::make_shared<nn::Module>());
    wte = body->register_module("wte", nn::Embedding(options.vocabulary, options.width));
    wpe = body->register_module("wpe", nn::Embedding(options.context, options.width));
    auto all = body->register_module("h", std::make_shared<nn::Module>());
    for (int i = 0; i < options.layers; ++i)
      blocks.push_back(all->register_module(str(i), std::make_shared<Block>(options, dropout)));
    ln_f = body->register_module("ln_f", nn::LayerNorm(nn::LayerNormOptions({options.width})));
    lm_head = register_module("lm_head",
                              nn::Linear(nn::LinearOptions(options.width, options.vocabulary).bias(false)));
    // Normal with deviation 0.02; what ends in the sum of all blocks is smaller, so that the sum is not.
    for (const auto& each : named_parameters()) {
      if (each.value().dim() < 2) {
        if (each.key().ends_with(".bias")) nn::init::zeros_(each.value());
        continue;
      }
      const bool residual = each.key().ends_with("c_proj.weight");
      nn::init::normal_(each.value(), 0, residual ? 0.02 / std::sqrt(2.0 * options.layers) : 0.02);
    }
  }

  at::Tensor forward(const at::Tensor& tokens) {
    const at::Tensor positions = at::arange(tokens.size(1), tokens.options());
    at::Tensor x = at::dropout(wte(tokens) + wpe(positions), dropout, is_training());
    for (const auto& block : blocks) x = block->forward(x);
    return ops::linear(ln_f(x), lm_head->weight, {});
  }

  const double dropout;
  nn::Embedding wte{nullptr}, wpe{nullptr};
  std::vector<std::shared_ptr<Block>> blocks;
  nn::LayerNorm ln_f{nullptr};
  nn::Linear lm_head{nullptr};
};

Status check(const ModelOptions& options) {
  const auto refuse = [](std::string what, std::string hint) -> Status {
    return fail(ExitCode::kConfig, std::move(what), std::move(hint));
  };
  if (options.layers < 1 || options.heads < 1 || options.width < 1 || options.context < 1)
    return refuse("gpt with 0 layers, heads, width or context", "use 1 or more of each");
  if (options.width % options.heads != 0)
    return refuse(str("--width ", options.width, " is not a multiple of --heads ", options.heads),
                  "change one of them");
  return {};
}

}  // namespace

const ModelRow kGptModel = {
    "gpt", "a decoder of bytes: --layers, --heads, --width, --context; dropout 0", SampleKind::kText, check,
    [](const ModelOptions& options) { return nn::AnyModule(std::make_shared<Gpt>(options)); }};

}  // namespace rekindle::model
