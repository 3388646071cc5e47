// Slurm's own programs, without which a job is of no use.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"

namespace rekindle::slurm {

struct Program {
  std::string name;
  std::string purpose;  // what rekindle cannot do without it, for the message
};

// The programs of a job (and, if a job follows this one instead of a requeue, those that submit it).
std::vector<Program> programs_of_a_job(bool resubmits);
// The programs of rekindle submit.
std::vector<Program> programs_of_submit();

// An error (ExitCode::kConfig) that names the programs that are in none of the folders of `path`, a value of
// PATH. Source: execvp(3).
Status check_programs(const std::vector<Program>& programs, const std::string& path);
// The same with this process's PATH.
Status check_programs(const std::vector<Program>& programs);

}  // namespace rekindle::slurm
