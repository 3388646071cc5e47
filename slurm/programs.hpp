// Slurm's own programs, which a job needs.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"

namespace rekindle::slurm {

struct Program {
  std::string name;
  std::string purpose;  // why rekindle needs the program, for the message
};

// The programs that a job needs. `resubmits`: the job submits a successor instead of a requeue.
std::vector<Program> programs_of_a_job(bool resubmits);
// The programs that rekindle submit needs.
std::vector<Program> programs_of_submit();

// An error (ExitCode::kConfig) if a program is in none of the folders of `path`, a value of PATH. The error
// names all missing programs. Source: execvp(3).
Status check_programs(const std::vector<Program>& programs, const std::string& path);
// The same with this process's PATH.
Status check_programs(const std::vector<Program>& programs);

}  // namespace rekindle::slurm
