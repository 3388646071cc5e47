#include "slurm/shepherd.hpp"

#include <csignal>
#include <filesystem>

#include "base/process.hpp"

namespace rekindle::slurm {
namespace {

constexpr int kWrappers = 3;  // maximum number of nested wrapper scripts

int kill_copies(pid_t pid, int wrappers) {
  const std::filesystem::path program = executable_of(pid);
  const bool is_srun = program.filename().string().starts_with("srun");
  int killed = 0;
  for (const pid_t child : children_of(pid)) {
    if (is_srun && executable_of(child) == program)
      killed += ::kill(child, SIGKILL) == 0 ? 1 : 0;
    else if (!is_srun && wrappers > 0)
      killed += kill_copies(child, wrappers - 1);
  }
  return killed;
}

}  // namespace

int kill_shepherd(pid_t pid) { return kill_copies(pid, kWrappers); }

}  // namespace rekindle::slurm
