// status.json: the state of a run, for users and for helpers (`rekindle join`).
#pragma once

#include <nlohmann/json.hpp>

#include "base/result.hpp"
#include "run/layout.hpp"

namespace rekindle::run {

// Empty if there is no file; an error if it cannot be read. Each field that a coordinator writes has the
// right type; otherwise the error is ExitCode::kConfig.
Result<nlohmann::json> read_status(const Layout& layout);

}  // namespace rekindle::run
