// A run that has nothing left to train.
#pragma once

#include <optional>
#include <string>

#include "app/options.hpp"

namespace rekindle::app {

// The line that reports a complete run, or "" if there is work left.
std::string completed_line(const LocalOptions& options);

// For a command that would train: says this line and returns the exit code; nullopt: there is work left. A
// script, whose text and arguments are no part of a run's identity, may be another one now: a warning says
// so. It is an error (ExitCode::kConfig) if its model has other tensors than the run's, and with --strict.
std::optional<int> end_if_complete(const LocalOptions& options);

}  // namespace rekindle::app
