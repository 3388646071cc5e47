// What a replica's state consists of, for those who do without LibTorch.
#pragma once

#include "checkpoint/state.hpp"
#include "model/model.hpp"

namespace rekindle::model {

// The tensors of Replica::state(), in canonical order. An error as Replica::make() has it for a model that
// cannot be built.
Result<checkpoint::StateSpec> state_spec(const ModelConfig& config);

}  // namespace rekindle::model
