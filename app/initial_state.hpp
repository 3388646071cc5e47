// --init: a run that starts from the tensors of a file.
#pragma once

#include <filesystem>

#include "app/options.hpp"
#include "base/result.hpp"
#include "checkpoint/tensor_file.hpp"
#include "run/layout.hpp"

namespace rekindle::app {

struct InitialState {
  checkpoint::Tensors chosen;  // what the run starts from; none: it draws its initial values
  std::size_t available = 0;   // tensors that were there to choose from
};

// Reads what --init names (a file, a checkpoint, or a run's newest), checks it against the model and sets
// options.job.init. `channels` are the data set's.
Result<InitialState> read_initial_state(LocalOptions& options, int channels);

// Sets options.state_bytes (parameters, buffers and what the optimizer keeps) and options.parameters.
Status measure_state(LocalOptions& options, int channels);

// Puts it where trainers find it; removes what an earlier attempt that has left no checkpoint put there. Only
// for the holder of the run directory's term.
Status keep_initial_state(const InitialState& initial, const LocalOptions& options,
                          const run::Layout& layout);

}  // namespace rekindle::app
