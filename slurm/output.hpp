// The name of a job's output file. Pure.
#pragma once

#include <string>

namespace rekindle::slurm {

struct SubmittedJob {
  std::string id, name, user;
  bool array = false;
};

// Replaces the patterns in sbatch's --output whose values are known before the job starts. Unknown are the
// node's name (%N) and, for a job array, the values that depend on the task (%a, %j, %J). Source:
// sbatch(1), filename pattern.
std::string expand_output(const std::string& pattern, const SubmittedJob& job);

}  // namespace rekindle::slurm
