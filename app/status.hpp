// The state of a run on one screen.
#pragma once

#include <filesystem>

#include "base/result.hpp"

namespace rekindle::app {

// Prints the state of a run (from its run directory) to stdout, as one screen of text or as JSON.
Status show_status(const std::filesystem::path& run_dir, bool json);
// The text on a terminal, again every second until the process is ended. Long lines are folded.
Status watch_status(const std::filesystem::path& run_dir);

}  // namespace rekindle::app
