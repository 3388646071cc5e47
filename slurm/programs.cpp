#include "slurm/programs.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "base/text.hpp"

namespace rekindle::slurm {
namespace {

bool is_program(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

bool is_in(const std::string& path, const std::string& name) {
  std::istringstream in(path);
  for (std::string folder; std::getline(in, folder, ':');) {
    if (is_program((folder.empty() ? "." : folder) + "/" + name)) return true;
  }
  return false;
}

// "a", "a and b", "a, b and c"
std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  return text;
}

}  // namespace

std::vector<Program> programs_of_a_job(bool resubmits) {
  std::vector<Program> programs{{"scontrol", "learn the job's nodes and requeue the job"},
                                {"srun", "start workers on the nodes"}};
  if (resubmits) {
    programs.push_back({"squeue", "find the job that follows this one"});
    programs.push_back({"sbatch", "submit the job that follows this one"});
  }
  return programs;
}

std::vector<Program> programs_of_submit() {
  return {{"scontrol", "check how Slurm is set up"}, {"sbatch", "submit the job"}};
}

Status check_programs(const std::vector<Program>& programs, const std::string& path) {
  std::vector<std::string> missing;
  std::string purposes;
  for (const Program& program : programs) {
    if (is_in(path, program.name)) continue;
    missing.push_back(program.name);
    purposes += str(purposes.empty() ? "" : "; ", program.name, " is needed to ", program.purpose);
  }
  if (missing.empty()) return {};
  return fail(
      ExitCode::kConfig,
      str(joined(missing), missing.size() == 1 ? " is" : " are", " not on PATH (", path, "); ", purposes),
      "add the folder of Slurm's programs to PATH; a container also needs Slurm's configuration, its "
      "libraries and munge's socket from the host");
}

Status check_programs(const std::vector<Program>& programs) {
  const char* path = std::getenv("PATH");
  return check_programs(programs, path != nullptr ? path : "/bin:/usr/bin");
}

}  // namespace rekindle::slurm
