// What rekindle submit tells before and after it hands a job to sbatch.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "app/options.hpp"
#include "app/slurm_job.hpp"
#include "slurm/commands.hpp"
#include "slurm/script.hpp"

namespace rekindle::app {

// A line for each thing of a job to be submitted that is not as it should be. `array`: its tasks have run
// directories of their own. Asks Slurm.
Result<std::vector<std::string>> warnings_before(const LocalOptions& options, OnLimit on_limit,
                                                 const slurm::JobScript& script, bool array);

// Of a job that has been submitted: why it will never start, or "".
std::string warning_after(const std::string& id, const slurm::JobFacts& facts);

// The path of the job's output, as far as it is known before the job starts.
std::string output_of(const std::string& id, const slurm::JobScript& script,
                      const Result<slurm::JobFacts>& facts);

// Whether these options of sbatch make an array.
bool is_array(const std::vector<std::string>& sbatch_options);

}  // namespace rekindle::app
