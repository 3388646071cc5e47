// sbatch's patterns, and the name of a job's output file. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace rekindle::slurm {

// sbatch pads numbers to at most so many digits.
constexpr std::size_t kWidestNumber = 10;
// The value of a pattern's letter; nullopt: the pattern is text. `width`: 0 if none is given.
using ValueOf = std::function<std::optional<std::string>(char letter, std::size_t width)>;
// Replaces %LETTER. A width, as in %5j, pads a number with zeros to so many digits. Source: sbatch(1),
// filename pattern.
std::string expand_letters(const std::string& text, const ValueOf& value_of);

struct SubmittedJob {
  std::string id, name, user;
  bool array = false;
};

// Replaces the patterns in sbatch's --output whose values are known before the job starts. Unknown are the
// node's name (%N) and, for a job array, the values that depend on the task (%a, %j, %J). Source:
// sbatch(1), filename pattern.
std::string expand_output(const std::string& pattern, const SubmittedJob& job);

}  // namespace rekindle::slurm
