// The tensors that `rekindle evaluate` passes on to the trainer program.
#pragma once

#include <optional>

#include "app/evaluate.hpp"
#include "base/files.hpp"
#include "base/result.hpp"
#include "checkpoint/checkpoint.hpp"

namespace rekindle::app {

// The tensors of a source, in memory, and what they are.
struct Given {
  Fd tensors;                                    // a .safetensors file in memory
  std::optional<checkpoint::Manifest> manifest;  // of a checkpoint
  bool averaged = false;
};

// Of a file with a moving average (`rekindle export --with-optimizer`), the average, unless options.raw.
Result<Given> take_file(const EvaluateOptions& options);
Result<Given> take_checkpoint(const EvaluateOptions& options);

}  // namespace rekindle::app
