// What the trainer program tells the front end about a job's model, so that the front end links no model
// code.
#pragma once

#include <nlohmann/json.hpp>

#include "base/result.hpp"
#include "checkpoint/state.hpp"
#include "protocol/job.hpp"

namespace rekindle::app {

// The line that `rekindle-trainer describe` prints: {"tensors": [{"name", "dtype", "shape", "role"}, ...]},
// or
// {"error": {"code", "what", "hint"}}.
nlohmann::json description_to_json(const Result<checkpoint::StateSpec>& spec);
Result<checkpoint::StateSpec> description_from_json(const std::string& line);

// Asks the trainer program beside this one: the tensors of the state, in canonical order. `channels`: of the
// images. Errors: those of the model (an unknown name, a size that does not fit); a trainer that does not run
// here.
Result<checkpoint::StateSpec> describe_model(const protocol::Job& job, int channels);

}  // namespace rekindle::app
