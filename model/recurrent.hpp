// Internal to the module: recurrent layers on a GPU.
#pragma once

#include "base/result.hpp"

namespace torch::nn {
class Module;
}

namespace rekindle::model {

// cuDNN draws the dropout between recurrent layers from a state that lives as long as the process, so the
// bits would depend on what a trainer computed before. Error (ExitCode::kConfig): the module has such a
// layer.
Status check_recurrent_layers(const torch::nn::Module& module);

}  // namespace rekindle::model
