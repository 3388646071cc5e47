// The comparison of two identities of runs (identity_of in protocol/job.hpp).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "protocol/job.hpp"

namespace rekindle::protocol {

// The first key in which the results of two runs differ up to `step`, or "". The learning rate may have been
// changed on purpose (--change-lr) after `step`; if it was changed before, the key is "lr". --skip-corrupt
// may have been added after `step`.
std::string difference_until(std::uint64_t step, nlohmann::json theirs, const nlohmann::json& ours);

// Gives the job what a resume may change as it was when `identity` was written, in place of the run's last
// start: the learning rates and --skip-corrupt.
void use_changes_of(Job& job, const nlohmann::json& identity);

// The job of an earlier start whose run.toml is lost: the `identity` in a checkpoint is that of this job. CPU
// instructions and variables, which are not in it, are those of `now`; all else has its default.
Job job_with_identity(const nlohmann::json& identity, const Job& now);

}  // namespace rekindle::protocol
