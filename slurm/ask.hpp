// How this module runs Slurm's commands and reads their answers. Internal to slurm/.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "base/command.hpp"
#include "base/result.hpp"

namespace rekindle::slurm {

// A busy controller may need its MessageTimeout of 10 s to answer. Slurm's commands repeat a query
// themselves.
inline constexpr std::chrono::seconds kAnswer{30};

// The output of a command that exited with 0. An error contains the first line that the command printed.
Result<std::string> ask(const std::vector<std::string>& argv, const CommandSetting& setting = {});

// The same for an sbatch command: returns the new job's id.
Result<std::string> ask_for_job(const std::vector<std::string>& argv, const CommandSetting& setting = {});

// The KEY=VALUE words of a text. If a key occurs twice, the first value counts.
std::map<std::string, std::string> words_of(const std::string& text);

// `env --unset=...`: a prefix for a command that must not see the job's own variables.
std::vector<std::string> env_without(const std::string& prefix);

}  // namespace rekindle::slurm
