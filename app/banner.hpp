// The summary of a run that is shown at its start.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/options.hpp"

namespace rekindle::app {

// What a run calls one of its samples: "image", "context" of a text, or "sample" of a script.
std::string word_for_sample(const protocol::Job& job);

// Several lines, the last without a newline. The options must be complete (app/prepare.hpp).
std::string banner(const LocalOptions& options, std::uint64_t workers);

// Warnings of a run on this machine alone: it is one node of a job with more, or there are more compute
// threads than processors.
std::vector<std::string> crowding(const LocalOptions& options, std::uint64_t processors);

}  // namespace rekindle::app
