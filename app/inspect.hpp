// Shows the content of a checkpoint, or of every checkpoint of a run directory.
#pragma once

#include <filesystem>

#include "base/result.hpp"

namespace rekindle::app {

struct InspectOptions {
  bool verify = true;  // read every byte; false: only check that every file exists with its size
  bool json = false;   // print one JSON object
};

// Prints to stdout. An error when a checkpoint is damaged (ExitCode::kConfig) or cannot be read (kGaveUp).
// Checkpoints that a live run deletes meanwhile are skipped.
Status inspect(const std::filesystem::path& path, const InspectOptions& options);

// For a directory of unknown origin: prints one line for each entry that would be executed or followed, or
// that another user controls. Reads no file except run.toml, executes nothing and follows no link.
// ExitCode::kConfig if there is such an entry.
Status inspect_untrusted(const std::filesystem::path& path);

}  // namespace rekindle::app
