#include "app/initial_state.hpp"

#include "app/foreign_file.hpp"
#include "app/places.hpp"
#include "base/text.hpp"
#include "checkpoint/export.hpp"
#include "checkpoint/initial_state.hpp"
#include "model/state_spec.hpp"

namespace rekindle::app {

namespace fs = std::filesystem;
using protocol::Job;

namespace {

model::ModelConfig model_config(const Job& job, int channels) {
  model::ModelConfig config;
  config.model = job.model;
  config.classes = static_cast<int>(job.classes);
  config.channels = channels;
  config.image_size = static_cast<int>(job.image_size);
  config.optimizer = job.optimizer;
  config.momentum = job.momentum;
  return config;
}

Result<checkpoint::Tensors> read_source(const fs::path& source) {
  if (!is_directory(source)) return read_foreign_file(source);
  REKINDLE_TRY(checkpoint::LoadedState loaded, read_checkpoint(source, std::nullopt, checkpoint::load));
  return checkpoint::Tensors{std::move(loaded.storage), std::move(loaded.state)};
}

// The option and the file that it names, whatever the error is about.
Error name_source(Error error, const fs::path& source) {
  const bool named = error.what.find(source.string()) != std::string::npos;
  error.what = str("--init", named ? "" : " " + source.string(), ": ", error.what);
  return error;
}

}  // namespace

Result<InitialState> read_initial_state(LocalOptions& options, int channels) {
  InitialState initial;
  if (options.init.empty()) return initial;
  REKINDLE_TRY(const checkpoint::StateSpec spec, model::state_spec(model_config(options.job, channels)));
  auto tensors = read_source(options.init);
  if (!tensors) return forward_error(name_source(tensors.error(), options.init));
  initial.tensors = std::move(*tensors);
  auto chosen =
      checkpoint::choose_initial(initial.tensors.state, spec, options.reset_head, options.init.string());
  if (!chosen) return forward_error(name_source(chosen.error(), options.init));
  initial.chosen = std::move(*chosen);
  options.job.init = checkpoint::initial_hash(initial.chosen);
  return initial;
}

Status measure_state(LocalOptions& options, int channels) {
  REKINDLE_TRY(const checkpoint::StateSpec spec, model::state_spec(model_config(options.job, channels)));
  options.state_bytes = checkpoint::total_bytes(spec);
  options.parameters = 0;
  for (const checkpoint::TensorSpec& tensor : spec) {
    if (tensor.role == checkpoint::Role::kParameter)
      options.parameters += tensor.bytes() / checkpoint::bytes_of(tensor.dtype);
  }
  return {};
}

Status keep_initial_state(const InitialState& initial, const LocalOptions& options,
                          const run::Layout& layout) {
  if (!initial.chosen.empty()) return checkpoint::keep_initial(layout.initial_state(), initial.chosen);
  if (options.job.init.empty()) std::ignore = remove_file(layout.initial_state());  // what stays is not read
  return {};
}

}  // namespace rekindle::app
