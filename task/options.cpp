#include "task/options.hpp"

#include "base/json_reader.hpp"
#include "base/lists.hpp"
#include "base/programs.hpp"
#include "base/text.hpp"

namespace rekindle::task {
namespace {

using nlohmann::json;

// Of a script nothing else: the tensors of a checkpoint show another model, and a changed script is told by
// the trainers' fingerprint.
json identity_of_script() { return {{"trainer", "python"}}; }

// Options that came later than the runs that have them as if they were not given are left out then.
json identity_of_model(const Options& options) {
  json identity = {{"model", options.model},           {"dataset", options.dataset},
                   {"data_hash", options.data_hash},   {"classes", options.classes},
                   {"image_size", options.image_size}, {"augment", options.augment},
                   {"dropout", options.dropout}};
  if (options.label_smoothing > 0) identity["label_smoothing"] = options.label_smoothing;
  if (options.skip_corrupt) identity["skip_corrupt"] = true;
  if (options.layers > 0) identity["layers"] = options.layers;
  if (options.heads > 0) identity["heads"] = options.heads;
  if (options.width > 0) identity["width"] = options.width;
  if (options.context > 0) identity["context"] = options.context;
  if (!options.model_options.empty()) identity["model_options"] = options.model_options;
  return identity;
}

}  // namespace

void choose_image_size(Options& options, int of_data) {
  if (options.image_size > 0) return;
  const std::uint64_t usual = options.model == "mnist-cnn" ? 28 : 224;
  options.image_size = of_data > 0 ? static_cast<std::uint64_t>(of_data) : usual;
}

// `python -m` would look for modules in the current folder first, which another user may have made. Processes
// that the script spawns get this sys.path from multiprocessing.
std::vector<std::string> python_trainer(const Options& options) {
  return {options.python, "-c",
          str("import os, sys; sys.path[:] = filter(None, [os.environ.get('", kPackageFolder,
              "'), *sys.path]); from rekindle.trainer import main; main()")};
}

json identity_of(const Options& options) {
  json identity = is_script(options) ? identity_of_script() : identity_of_model(options);
  if (!options.script_tied.empty()) identity["script_tied"] = options.script_tied;  // an export has all names
  return identity;
}

void take_additions(json& identity, const json& from) {
  if (from.contains("skip_corrupt")) identity["skip_corrupt"] = from.at("skip_corrupt");
}

void use_kind(Options& options, const json& identity) {
  if (identity.contains("trainer")) options.script = "the run's script";
}

void use_additions(Options& options, const json& identity) {
  options.skip_corrupt = identity.value("skip_corrupt", false);
}

Status check_required(const json& object, const std::string& source) {
  constexpr JsonField kFields[] = {{"dataset", JsonType::kText, Presence::kRequired},
                                   {"image_size", JsonType::kWhole, Presence::kRequired},
                                   {"model", JsonType::kText, Presence::kRequired}};
  return check_fields(object, kFields, source);
}

Status check_values(const Options& options, const std::string& source) {
  return check_whole(
      {
          {"classes", options.classes, 1},
          {"image_size", options.image_size, 1},
          {"layers", options.layers},
          {"heads", options.heads},
          {"width", options.width},
          {"context", options.context},
      },
      source);
}

std::map<std::string, std::string> own_options(const std::string& text) {
  std::map<std::string, std::string> options;
  for (const std::string& entry : comma_separated(text)) {
    const std::size_t equals = entry.find('=');
    if (equals != std::string::npos) options[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return options;
}

}  // namespace rekindle::task
