// The summary of a run that is shown at its start.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/options.hpp"

namespace rekindle::app {

// Several lines, the last without a newline. The options must be complete (app/prepare.hpp).
std::string banner(const LocalOptions& options, std::uint64_t workers);

// Warnings if there are more compute threads than processors; 0 processors: unknown.
std::vector<std::string> crowding(const LocalOptions& options, std::uint64_t processors);

}  // namespace rekindle::app
