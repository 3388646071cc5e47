// rekindle submit: the batch script of a run, written, checked and handed to sbatch.
#pragma once

#include <string>
#include <vector>

#include "app/options.hpp"

namespace rekindle::app {

struct SubmitOptions {
  std::vector<std::string> job_arguments;     // as given, for rekindle slurm
  std::vector<std::string> sbatch_arguments;  // what stands behind --
  std::string run_dir;                        // of those, with its patterns; empty: from --config
  bool print = false;                         // the script, and nothing else
};
// `options` has been resolved, with the array's patterns left out.
int run_submit(LocalOptions& options, const SubmitOptions& submit);

// What an argument is where no job has filled in %A, %a and %j yet: a number will stand there.
std::string without_job(const std::string& argument);

}  // namespace rekindle::app
