// Steps before any process starts: reading the data set's properties and checking the run directory.
#pragma once

#include <filesystem>

#include "app/initial_state.hpp"
#include "app/options.hpp"
#include "base/result.hpp"

namespace rekindle::app {

// Completes the job from the data set and an earlier attempt, and returns the initial values of --init.
// Errors (all ExitCode::kConfig): missing or invalid data; a run directory that is not writable, belongs to
// another run, or is held by a live run.
Result<InitialState> prepare(LocalOptions& options);

// The same for a job that will begin later; the run may be held by another process now. `looks_only`: creates
// and writes no files.
Status check_for_later(LocalOptions& options, bool looks_only);

// The line that reports a complete run, or "" if there is work left.
std::string completed_line(const LocalOptions& options);

}  // namespace rekindle::app
