#include "model/recurrent.hpp"

#include <torch/nn/modules/rnn.h>

#include "base/text.hpp"

namespace rekindle::model {
namespace {

template <class Layer>
bool draws_by_itself(const torch::nn::Module& module) {
  const auto* const layer = module.as<Layer>();
  return layer != nullptr && layer->options.dropout() > 0 && layer->options.num_layers() > 1;
}

}  // namespace

Status check_recurrent_layers(const torch::nn::Module& module) {
  for (const auto& each : module.named_modules()) {
    const torch::nn::Module& layer = *each.value();
    if (draws_by_itself<torch::nn::RNN>(layer) || draws_by_itself<torch::nn::LSTM>(layer) ||
        draws_by_itself<torch::nn::GRU>(layer))
      return fail(
          ExitCode::kConfig,
          str("the layer ", each.key().empty() ? layer.name() : each.key(),
              " has dropout between its layers, which on a GPU is not the same each time"),
          "use --device cpu, or one recurrent module for each layer, with torch::nn::Dropout between them");
  }
  return {};
}

}  // namespace rekindle::model
