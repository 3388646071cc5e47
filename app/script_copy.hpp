// The copy of its Python script that a run executes.
#pragma once

#include <filesystem>

#include "base/result.hpp"
#include "protocol/job.hpp"
#include "run/layout.hpp"

namespace rekindle::app {

// Whether both files have the same text; two that cannot be read have.
bool same_text(const std::filesystem::path& a, const std::filesystem::path& b);
// Warns if `kept`, a run's copy of a script, is there and has another text.
void warn_of_kept_script(const std::filesystem::path& script, const std::filesystem::path& kept);

// The run's copy of the script of the job in its run.toml.
FilePath copy_of_script(const protocol::Job& job, const run::Layout& layout);

// run.toml has the path that the script has on the machine where the run was started. If there is no such
// file on this machine, where the run directory may have another path, the job's script becomes the copy.
void find_script_here(protocol::Job& job, const run::Layout& layout);

// Copies the script into the run directory, where all trainers of this attempt find it: it may be edited
// while the run lives. The copy that is kept with the run's programs stays. Returns the script to run.
Result<std::filesystem::path> copy_for_attempt(const std::filesystem::path& script,
                                               const run::Layout& layout);

}  // namespace rekindle::app
