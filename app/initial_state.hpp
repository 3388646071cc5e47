// --init: a run that starts from the tensors of a file.
#pragma once

#include <filesystem>

#include "app/options.hpp"
#include "base/result.hpp"
#include "checkpoint/tensor_file.hpp"
#include "run/layout.hpp"

namespace rekindle::app {

struct InitialState {
  checkpoint::Tensors chosen;  // the tensors that the run starts from; none: initial values are drawn
  std::size_t available = 0;   // number of tensors in the source
};

// Reads the source of --init (a file, a checkpoint, or a run's newest), checks it against the model's tensors
// and sets options.job.init.
Result<InitialState> read_initial_state(LocalOptions& options, const checkpoint::StateSpec& model);

// Sets options.state_bytes (parameters, buffers and optimizer state) and options.parameters.
void measure_state(LocalOptions& options, const checkpoint::StateSpec& model);

// Writes the state where trainers read it, and removes the state of an earlier attempt that left no
// checkpoint. Only for the holder of the run directory's term.
Status keep_initial_state(const InitialState& initial, const LocalOptions& options,
                          const run::Layout& layout);

}  // namespace rekindle::app
