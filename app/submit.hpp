// rekindle submit: the batch script of a run, written, checked and handed to sbatch.
#pragma once

#include <string>
#include <vector>

#include "app/options.hpp"
#include "app/slurm_job.hpp"

namespace rekindle::app {

struct SubmitOptions {
  std::vector<std::string> job_arguments;     // as given, for rekindle slurm
  std::vector<std::string> sbatch_arguments;  // what stands behind --, and what should
  std::vector<std::string> guessed;           // of those, what stood before it
  SlurmOptions how;
  std::string run_dir;  // of those, with its patterns; empty: from --config
  bool print = false;   // the script, and nothing else
};
// Takes submit's own arguments out of the command line; what is left can be parsed as a job's.
SubmitOptions take_submit_options(std::vector<std::string>& arguments);

// `options` has been resolved, with the array's patterns left out.
int run_submit(LocalOptions& options, const SubmitOptions& submit);

}  // namespace rekindle::app
