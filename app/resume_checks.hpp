// Whether the options of a resume are those of the run.
#pragma once

#include <optional>

#include "app/options.hpp"
#include "base/result.hpp"
#include "protocol/job.hpp"
#include "run/layout.hpp"

namespace rekindle::app {

// The earlier job that the options must match: that of run.toml or, without this file, what the newest
// checkpoint says. nullopt: the run has neither a checkpoint nor given initial values to
// continue from, so any options are valid.
Result<std::optional<protocol::Job>> earlier_job(const LocalOptions& options, const run::Layout& layout);

// Compares the options with the earlier job, and takes from it what a resume keeps: initial values, earlier
// learning rates, CPU capability, environment. One error names all differences (ExitCode::kConfig).
Status check_resume(const protocol::Job& before, LocalOptions& options, const run::Layout& layout);

}  // namespace rekindle::app
