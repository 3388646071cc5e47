// Where sbatch writes a job's output. Pure.
#pragma once

#include <string>

namespace rekindle::slurm {

struct SubmittedJob {
  std::string id, name, user;
  bool array = false;
};

// An --output of sbatch with its patterns filled in, as far as they are known before the job starts: the
// node's name (%N) is not, and of an array what differs between its tasks (%a, %j, %J). Source: sbatch(1),
// filename pattern.
std::string expand_output(const std::string& pattern, const SubmittedJob& job);

}  // namespace rekindle::slurm
