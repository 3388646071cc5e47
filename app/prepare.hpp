// Steps before any process starts: reading the data set's properties and checking the run directory.
#pragma once

#include <filesystem>

#include "app/initial_state.hpp"
#include "app/options.hpp"
#include "base/result.hpp"

namespace rekindle::app {

// The text of the stop request that is in the run directory now; "" if there is none.
//
// The rule: a request is old if its text was there when the command began, and only an old request is
// removed. Each request has an id, so no two have the same text. A command calls this first, before it reads
// options or data (LocalOptions::old_stop): each request that comes later is for this attempt, which obeys
// it. No clock takes part, because the request may come from another host.
std::string stop_request_in(const std::filesystem::path& run_dir);

// Completes the job from the data set and an earlier attempt, and returns the initial values of --init.
// Errors (all ExitCode::kConfig): missing or invalid data; a run directory that is not writable, belongs to
// another run, or is held by a live run.
Result<InitialState> prepare(LocalOptions& options);

// The same for a job that will begin later; the run may be held by another process now. `looks_only`: creates
// and writes no files.
Status check_for_later(LocalOptions& options, bool looks_only);

// An error if a live run holds the run directory; it may have just been killed.
Status check_not_held(const LocalOptions& options);

}  // namespace rekindle::app
