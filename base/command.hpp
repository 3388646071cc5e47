// Another program, run to its end: what it said, and how it ended.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/process.hpp"
#include "base/result.hpp"

namespace rekindle {

struct CommandOutput {
  ExitStatus status;
  std::string out, err;  // at most 8 MiB of each; more is dropped
  bool ok() const { return !status.by_signal && status.code == 0; }
};

// Runs argv[0] (looked for in PATH) without input. One that takes longer than `limit` is killed: an error, as
// is one that cannot be started. What it started itself, and left behind, is not waited for.
Result<CommandOutput> run_command(const std::vector<std::string>& argv, std::chrono::milliseconds limit);

}  // namespace rekindle
