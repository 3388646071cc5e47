// What a run starts from when it does not draw its initial values: the tensors of a file.
#pragma once

#include <string>
#include "base/file_path.hpp"

#include "base/result.hpp"
#include "checkpoint/state.hpp"

namespace rekindle::checkpoint {

// The tensors of `available` that a model whose state is `model` starts from, under the model's roles and in
// its order; nothing of them needs to be read for this. Parameters and buffers must all be there, with their
// shapes and types; the optimizer's all or not at all (they start at zero then), and those of another
// optimizer are left out. With `reset_head` the last layer is left out, whatever its shape. `source` is named
// in errors.
Result<StateSpec> choose_initial(const StateSpec& available, const StateSpec& model, bool reset_head,
                                 const std::string& source);

// What stands for the tensors in a run's identity: state_digest at step 0.
std::string initial_hash(const State& chosen);

// Writes `chosen` as a .safetensors file; nothing is written if they are there already.
Status keep_initial(const FilePath& file, const State& chosen);

// Fills the tensors of `state` that the file holds, straight from it; the others stay as they are. An error
// if the file holds others, or if the hash of what was read is not `hash`.
Status load_initial(const FilePath& file, const std::string& hash, const State& state);

}  // namespace rekindle::checkpoint
