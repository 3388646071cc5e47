// What happens before any process starts: the data set is looked at, and the run directory is checked.
#pragma once

#include <filesystem>

#include "app/initial_state.hpp"
#include "app/options.hpp"
#include "base/result.hpp"

namespace rekindle::app {

// Completes the job with what the data set and an earlier attempt say, and returns what --init gives. Errors:
// no or bad data, an unwritable run directory, one that belongs to another run or that a live run holds (all
// ExitCode::kConfig).
Result<InitialState> prepare(LocalOptions& options);

// The same for a job that will begin later, whoever has the run now. `looks_only`: makes and writes nothing.
Status check_for_later(LocalOptions& options, bool looks_only);

// The line that says that a run is complete, or "" when there is work left.
std::string completed_line(const LocalOptions& options);

}  // namespace rekindle::app
