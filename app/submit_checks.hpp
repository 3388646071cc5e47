// The warnings of rekindle submit before and after sbatch.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "app/options.hpp"
#include "app/slurm_job.hpp"
#include "slurm/commands.hpp"
#include "slurm/script.hpp"

namespace rekindle::app {

// Slurm's configuration. An error if no controller answers.
Result<std::map<std::string, std::string>> ask_slurm();

// One line for each problem of a job to be submitted. `config`: of ask_slurm(). `pattern`: the --run-dir of
// an array whose tasks have run directories of their own; else empty. Asks Slurm for the user's jobs.
Result<std::vector<std::string>> warnings_before(std::map<std::string, std::string> config,
                                                 const LocalOptions& options, OnLimit on_limit,
                                                 const slurm::JobScript& script, const std::string& pattern);

// The reason why a submitted job will never start, or "".
std::string warning_after(const std::string& id, const slurm::JobFacts& facts);

// The path of the job's output, as far as known before the job starts.
std::string output_of(const std::string& id, const slurm::JobScript& script,
                      const Result<slurm::JobFacts>& facts);

// Whether these sbatch options make a job array.
bool is_array(const std::vector<std::string>& sbatch_options);

}  // namespace rekindle::app
