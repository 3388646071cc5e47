// Reads jobs and identities from files, which may be damaged or malicious: the type of each field is checked,
// and no value leads to a division by zero in a schedule. Errors are ExitCode::kConfig and name `source` and
// the field.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "protocol/job.hpp"

namespace rekindle::protocol {

// What to do about a damaged run.toml. Without one, a run goes on with what its newest checkpoint says
// (job_with_identity).
inline constexpr const char* kMendRunToml =
    "put the file back from a copy, or remove it and give the run's own command again";

// The programs that start a container: what --container-runtime and a job may name.
std::vector<std::string> container_runtimes();
std::vector<std::string> exchanges();
std::vector<std::string> precisions();

// A field that is missing in `object` has the default of Job{}.
Result<Job> job_from_json(const nlohmann::json& object, const std::string& source);
Result<Job> job_from_text(const std::string& json, const std::string& source);

// Reads the content of a run.toml. An error if a field is missing that every run.toml has, so that an empty
// or truncated file is not a job of defaults, or if there are no steps. Each error says what to do.
Result<Job> job_of_run(const nlohmann::json& object, const std::string& source);

// Reads the JSON text of identity_of().
Result<nlohmann::json> identity_from_text(const std::string& json, const std::string& source);

}  // namespace rekindle::protocol
