// The batch script that rekindle submit writes. Pure.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace rekindle::slurm {

struct JobScript {
  std::string name;
  std::filesystem::path output;      // sbatch's patterns in it
  std::filesystem::path directory;   // that relative paths in `command` start from
  std::uint64_t lead_seconds = 30;   // of the signal, before the time limit
  std::vector<std::string> options;  // of sbatch, as the user gave them: they win
  std::vector<std::string> command;  // what the job execs
};
std::string to_text(const JobScript& script);

// An error (ExitCode::kUsage) if a word has control characters: in the script a line end would begin a line
// of its own, outside of any quotes, for sbatch reads #SBATCH lines as lines.
Status check_words(const JobScript& script);

// One word of a shell's command line.
std::string quoted(const std::string& word);

// What is before the first name with one of sbatch's patterns in it.
std::filesystem::path without_patterns(const std::filesystem::path& path);

// What `--name=VALUE` or `--name VALUE` gives among `words`, and with a letter also `-lVALUE` and `-l VALUE`.
// If there are several, the last one counts.
std::optional<std::string> option_value(const std::vector<std::string>& words, const std::string& name,
                                        char letter = '\0');

}  // namespace rekindle::slurm
