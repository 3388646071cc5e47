// rekindle submit: writes and checks the batch script of a run, and submits it with sbatch.
#pragma once

#include <string>
#include <vector>

#include "app/options.hpp"
#include "app/slurm_job.hpp"

namespace rekindle::app {

struct SubmitOptions {
  std::vector<std::string> job_arguments;     // as given, for rekindle slurm
  std::vector<std::string> sbatch_arguments;  // the arguments after --, and `guessed`
  std::vector<std::string> guessed;           // sbatch options that were given before --
  SlurmOptions how;
  std::string run_dir;  // from job_arguments, with its patterns; empty: from --config or a script
  bool print = false;   // print the script only
};
// Takes submit's own arguments out of the command line; the rest can be parsed as a job's.
SubmitOptions take_submit_options(std::vector<std::string>& arguments);

// The same for the values of a --config file. Those of the run directory stay, as in SubmitOptions::run_dir.
std::string expand_without_job(const std::string& name, const std::string& value);

// `options` has been resolved, with the array's patterns left out.
int run_submit(LocalOptions& options, const SubmitOptions& submit);

}  // namespace rekindle::app
