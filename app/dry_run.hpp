// rekindle local --dry-run: checks everything, makes some steps in a folder beside
// the run directory (or in it, if it is there), removes them, and
// says what the run will take.
#pragma once

#include <string>
#include <vector>

#include "app/options.hpp"

namespace rekindle::app {

// `options` has been checked by check_for_later(); `as_given`: the command line. Returns the exit code.
int dry_run(const LocalOptions& options, const std::vector<std::string>& as_given);

}  // namespace rekindle::app
