// The copy of a run's script in its run directory.
#pragma once

#include "base/file_path.hpp"
#include "protocol/job.hpp"
#include "run/layout.hpp"

namespace rekindle::app {

// The run's copy of the script of the job in its run.toml.
FilePath copy_of_script(const protocol::Job& job, const run::Layout& layout);

// run.toml has the path that the script has on the machine where the run was started. If there is no such
// file on this machine, where the run directory may have another path, the job's script becomes the copy.
void find_script_here(protocol::Job& job, const run::Layout& layout);

}  // namespace rekindle::app
