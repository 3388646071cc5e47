// What is in a checkpoint, or in every checkpoint of a run directory.
#pragma once

#include <filesystem>

#include "base/result.hpp"

namespace rekindle::app {

struct InspectOptions {
  bool verify = true;  // read every byte; else only look whether every file is there with its size
  bool json = false;   // one object
};

// Prints to stdout. An error when a checkpoint is damaged (ExitCode::kConfig) or cannot be read (kGaveUp).
// Those that a live run deletes meanwhile are left out.
Status inspect(const std::filesystem::path& path, const InspectOptions& options);

// Prints what in a directory of unknown origin would be executed, followed, or be under another user's
// control, one line each; reads no file, executes nothing and follows no link. ExitCode::kConfig if there is
// something to print.
Status inspect_untrusted(const std::filesystem::path& path);

}  // namespace rekindle::app
