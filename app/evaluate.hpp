// `rekindle evaluate`: the test set with the model of a run, a checkpoint or a file.
//
// The front end reads and verifies the tensors and passes them on as a .safetensors file in memory, the stdin
// of the trainer program (app/trainer_question.hpp):
//
//   evaluate-tensors JOB BATCH NAME
//     {"evaluated", "of"}, about each second: test samples
//     {"samples", "test_count", "loss": {"sum", "count"}, "metrics": [{"name", "sum", "count"}, ...],
//      "classes": [{"name", "count", "correct"}, ...], "skipped": [error, ...],
//      "content_hash", "earlier_hash", "change": as in data::DatasetInfo}
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include "app/option_table.hpp"
#include "base/result.hpp"

namespace rekindle::app {

inline constexpr const char* kEvaluateTensors = "evaluate-tensors";

struct EvaluateOptions {
  std::filesystem::path source;       // a run directory, a checkpoint or a file
  std::optional<std::uint64_t> step;  // of a run; nullopt: the newest checkpoint
  bool raw = false, per_class = false, json = false;
  std::optional<std::uint64_t> batch_size;  // samples at a time; nullopt: the usual number
  RawOptions raw_options;
  std::set<std::string> given;           // names of the options in raw_options that were given
  std::optional<std::uint64_t> threads;  // nullopt: one for each processor that this process may use
};

// Prints loss and metrics. `own_trainer`: as LocalOptions::own_trainer. Errors: those of the trainer program,
// such as the first tensor that is not the model's.
Status evaluate(const EvaluateOptions& options, const std::filesystem::path& own_trainer);

// The options of a run that say what is evaluated.
void add_evaluation_options(CLI::App& command, RawOptions& raw);

}  // namespace rekindle::app
