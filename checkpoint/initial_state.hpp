// The tensors of a file that a run starts from, instead of drawn initial values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file_path.hpp"
#include "base/result.hpp"
#include "checkpoint/export.hpp"
#include "checkpoint/state.hpp"

namespace rekindle::checkpoint {

// "[10, 512]"
std::string shape_text(const TensorSpec& tensor);

// A tensor of the model's last layer that differs in its number of rows alone: the number of classes.
struct OtherHead {
  TensorSpec theirs, ours;
};
std::optional<OtherHead> other_head(const StateSpec& available, const StateSpec& model);

// Tied weights may be in a file under one of their further names alone (safetensors' save_model() keeps one
// name): they get the model's name for them.
void use_first_names(StateSpec& available, const std::vector<OtherName>& others);

// Chooses the tensors of `available` that a model with state `model` starts from, with the model's roles and
// in its order, without reading their data. Parameters and buffers must all exist, with the model's shapes
// and types, except the counter num_batches_tracked of a batch norm. The optimizer's tensors are chosen if
// all of them exist, otherwise they start at zero; tensors of another optimizer are ignored. With
// `reset_head` the last layer is left out, and its shape may differ; an optimizer that counts updates then
// starts at zero. Further names of the model's tensors (`others`) may be there, too. `source` is the name in
// errors; `other_model`, unless it is empty, is what to do about tensors of another model.
Result<StateSpec> choose_initial(const StateSpec& available, const StateSpec& model, bool reset_head,
                                 const std::string& source, const std::vector<OtherName>& others = {},
                                 const std::string& other_model = {});

// The hash of the tensors in a run's identity: state_digest at step 0.
std::string initial_hash(const State& chosen);

// Writes `chosen` as a .safetensors file, unless the file already has these tensors.
Status keep_initial(const FilePath& file, const State& chosen);

// Reads the tensors in the file into `state`; other tensors of `state` do not change. An error if the file
// has tensors that are not in `state`, or if the hash of the tensors read is not `hash`.
Status load_initial(const FilePath& file, const std::string& hash, const State& state);

}  // namespace rekindle::checkpoint
