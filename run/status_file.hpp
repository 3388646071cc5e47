// status.json: what a run is doing, for people and for those who help it.
#pragma once

#include <nlohmann/json.hpp>

#include "base/result.hpp"
#include "run/layout.hpp"

namespace rekindle::run {

// Empty if there is none. Every field that a coordinator writes has its type; a file where one has not is
// ExitCode::kConfig.
Result<nlohmann::json> read_status(const Layout& layout);

}  // namespace rekindle::run
