// What a run trains: a model on a data set, or a script. protocol/ and trainer/ store these options as one
// part of the job (protocol/job.hpp) and do not read them. To add an option of models or of data sets: a
// field and its name in the macro below, its entry in identity_of(), and its row in app/option_table.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace rekindle::task {

struct Options {
  // A training in Python: its script (a path), the folder of the script's modules, its own arguments, the
  // names of its metrics, and the interpreter. Empty: a model of a C++ trainer program, with the fields from
  // `model` on.
  std::string script, script_folder, python;
  // The folder in which the run was started: paths in a script may be relative to it.
  std::string script_started_in;
  std::vector<std::string> script_arguments, script_metrics;
  // Other names of tensors that the model shares between modules: other name, name, ...
  std::vector<std::string> script_tied;
  std::string model = "vgg11", dataset = "cifar10", data;  // data: a path
  std::uint64_t classes = 10;
  std::string data_hash;  // of the data set's content
  std::uint64_t image_size = 224;
  std::string augment = "crop";  // data::Augment
  bool skip_corrupt = false;     // the next readable image stands for one that cannot be decoded
  double dropout = -1;           // below 0: the model's own
  std::uint64_t layers = 0, heads = 0, width = 0;  // of gpt; 0: of another model
  std::uint64_t context = 0;                       // of text: tokens in a sample; 0: no text
  std::string model_options;                       // of one model alone: NAME=VALUE,... in order of the names
  double label_smoothing = 0;
};
#define REKINDLE_TASK_FIELDS(DO)                                                                           \
  NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(                                                                \
      DO, script, script_folder, python, script_started_in, script_arguments, script_metrics, script_tied, \
      model, dataset, data, classes, data_hash, image_size, augment, skip_corrupt, dropout, layers, heads, \
      width, context, model_options, label_smoothing))
// Adds the fields to those that the object has.
inline void to_json(nlohmann::json& nlohmann_json_j, const Options& nlohmann_json_t) {
  REKINDLE_TASK_FIELDS(NLOHMANN_JSON_TO)
}
inline void from_json(const nlohmann::json& nlohmann_json_j, Options& nlohmann_json_t) {
  REKINDLE_TASK_FIELDS(NLOHMANN_JSON_FROM)
}
#undef REKINDLE_TASK_FIELDS

// Gives options without an image size (0) that of the data set, or if its images have any (0), the usual one
// of the model.
void choose_image_size(Options& options, int of_data);

inline bool is_script(const Options& options) { return !options.script.empty(); }
// The command that starts a trainer of a script, without the trainer's options.
std::vector<std::string> python_trainer(const Options& options);

// The options that determine the bits: entries of the identity of a run.
nlohmann::json identity_of(const Options& options);
// A resume may add --skip-corrupt: up to then no sample was skipped, for a corrupt one would have ended the
// run. Adds it to `identity` if the identity `from` has it.
void take_additions(nlohmann::json& identity, const nlohmann::json& from);
// Makes these the options of a script, whose path is not known, if `identity` is that of a script.
void use_kind(Options& options, const nlohmann::json& identity);
// With it, or without it, as `identity`.
void use_additions(Options& options, const nlohmann::json& identity);

// Errors are ExitCode::kConfig, and name `source` and the field.
// The fields that every run.toml has; fields that later versions have added are not among them.
Status check_required(const nlohmann::json& object, const std::string& source);
Status check_values(const Options& options, const std::string& source);

// The entries of Options::model_options, by name.
std::map<std::string, std::string> own_options(const std::string& text);

}  // namespace rekindle::task
