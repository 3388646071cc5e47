// Jobs and identities from files, which may be damaged or made up: each field has its type, and no value
// makes a schedule divide by zero. Errors are ExitCode::kConfig, and name `source` and the field.
#pragma once

#include <string>

#include "base/result.hpp"
#include "protocol/job.hpp"

namespace rekindle::protocol {

// What is not in `object` is as in Job{}.
Result<Job> job_from_json(const nlohmann::json& object, const std::string& source);
Result<Job> job_from_text(const std::string& json, const std::string& source);

// What identity_of() gave, as text.
Result<nlohmann::json> identity_from_text(const std::string& json, const std::string& source);

}  // namespace rekindle::protocol
