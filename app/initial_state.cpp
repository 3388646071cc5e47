#include "app/initial_state.hpp"

#include "app/foreign_file.hpp"
#include "app/places.hpp"
#include "base/text.hpp"
#include "checkpoint/export.hpp"
#include "checkpoint/initial_state.hpp"

namespace rekindle::app {

namespace fs = std::filesystem;
namespace {

// For a script, which has no --reset-head.
constexpr const char* kInTheScript =
    "--init needs the same tensors under the same names; to leave some out, in the function that makes the "
    "model: model.load_state_dict({k: v for k, v in weights.items() if not k.startswith(\"fc.\")}, "
    "strict=False)";

// The tensors that a model with the state `model` starts from; `available`: the number of tensors in the
// source. Only needed tensors are read.
Result<checkpoint::Tensors> read_source(const LocalOptions& options, const checkpoint::StateSpec& model,
                                        std::size_t& available) {
  const fs::path& source = options.init;
  const auto others = checkpoint::other_names(options.job.task.script_tied);
  const auto choose = [&](const checkpoint::StateSpec& tensors) {
    available = tensors.size();
    return checkpoint::choose_initial(tensors, model, options.reset_head, source.string(), others,
                                      is_script(options.job) ? kInTheScript : "");
  };
  if (!is_folder(source)) {
    REKINDLE_TRY(const checkpoint::SafetensorsFile file, open_foreign_file(source));
    checkpoint::TensorSource tensors = file.source();
    checkpoint::use_first_names(tensors.tensors, others);
    REKINDLE_TRY(const checkpoint::StateSpec chosen, choose(tensors.tensors));
    return checkpoint::read_tensors(tensors, chosen);
  }
  return read_checkpoint(source, std::nullopt, [&](const FilePath& directory) -> Result<checkpoint::Tensors> {
    REKINDLE_TRY(const checkpoint::Manifest manifest, checkpoint::read_manifest(directory));
    REKINDLE_TRY(const checkpoint::StateSpec chosen, choose(manifest.contents.tensors));
    return checkpoint::load_tensors(directory, manifest, chosen);
  });
}

bool is_run_without_checkpoint(const fs::path& source) {
  const run::Layout layout(source, Trust::kForeign);
  if (!is_folder(source) || is_checkpoint(layout.root()) || !must_be_run(layout)) return false;
  const auto committed = checkpoint::find_committed(layout.root());
  return committed && committed->empty();
}

// Names the option. The errors of read_source() name their file, except that a run has no checkpoint.
Error name_option(Error error, const fs::path& source) {
  const std::string missing = is_run_without_checkpoint(source) ? " " + source.string() : "";
  error.what = str("--init", missing, ": ", error.what);
  return error;
}

}  // namespace

Result<InitialState> read_initial_state(LocalOptions& options, const checkpoint::StateSpec& model) {
  InitialState initial;
  if (options.init.empty()) return initial;
  auto chosen = read_source(options, model, initial.available);
  if (!chosen) return forward_error(name_option(chosen.error(), options.init));
  initial.chosen = std::move(*chosen);
  options.job.init = checkpoint::initial_hash(initial.chosen.state);
  return initial;
}

void measure_state(LocalOptions& options, const checkpoint::StateSpec& model) {
  options.state_bytes = checkpoint::total_bytes(model);
  options.parameters = 0;
  for (const checkpoint::TensorSpec& tensor : model) {
    if (tensor.role == checkpoint::Role::kParameter)
      options.parameters += tensor.bytes() / checkpoint::bytes_of(tensor.dtype);
  }
}

Status keep_initial_state(const InitialState& initial, const LocalOptions& options,
                          const run::Layout& layout) {
  if (!initial.chosen.state.empty())
    return checkpoint::keep_initial(layout.initial_state(), initial.chosen.state);
  if (options.job.init.empty())
    std::ignore = remove_file(layout.initial_state());  // a remaining file is never read
  return {};
}

}  // namespace rekindle::app
