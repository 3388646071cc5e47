// Durations on the command line need a unit: "500ms", "30s", "10min" or "10m", "2h", "1d", "1h30m".
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace rekindle {

Result<std::chrono::milliseconds> parse_duration(std::string_view text);
// The same for an option's value. An error names the option: "--wait '10' has no unit".
Result<std::chrono::milliseconds> parse_duration(std::string_view option, std::string_view text);
std::string format_duration(std::chrono::milliseconds duration);  // "45s", "12min 5s", "3h", "2d 4h"

}  // namespace rekindle
