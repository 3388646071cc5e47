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
  std::filesystem::path output;      // may contain sbatch's patterns
  std::filesystem::path directory;   // the job's working directory, for relative paths in `command`
  std::uint64_t lead_seconds = 30;   // time between the signal and the time limit
  std::vector<std::string> options;  // sbatch options from the user; they override the options above
  std::vector<std::string> command;  // the command that the job executes with exec
};
std::string to_text(const JobScript& script);

// An error (ExitCode::kUsage) if a word contains control characters. sbatch reads #SBATCH lines without
// regard to quotes, so a line end in a word would start a new line of the script.
Status check_words(const JobScript& script);

// Whether the job of a batch script by to_text() has this --run-dir, with its patterns.
bool has_run_dir(const std::string& text, const std::string& run_dir);

// The word, quoted for a shell if necessary.
std::string quoted(const std::string& word);

// The part of the path before the first name that contains a pattern of sbatch.
std::filesystem::path without_patterns(const std::filesystem::path& path);

// The value of `--name=VALUE` or `--name VALUE` in `words`; with a letter, also of `-lVALUE` and `-l VALUE`.
// If the option occurs several times, the last value counts.
std::optional<std::string> option_value(const std::vector<std::string>& words, const std::string& name,
                                        char letter = '\0');

}  // namespace rekindle::slurm
