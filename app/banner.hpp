// What a run will do, shown when it starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/options.hpp"

namespace rekindle::app {

// Some lines, the last without a newline. The options are complete (app/prepare.hpp).
std::string banner(const LocalOptions& options, std::uint64_t workers);

// Warnings about more compute threads than this machine has processors; 0: nobody knows how many these are.
std::vector<std::string> crowding(const LocalOptions& options, std::uint64_t processors);

}  // namespace rekindle::app
