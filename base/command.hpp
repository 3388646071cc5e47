// Runs another program to its end; returns its output and its exit status.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/process.hpp"
#include "base/result.hpp"

namespace rekindle {

struct CommandOutput {
  ExitStatus status;
  std::string out, err;  // of `err` at most 64 MiB; more is dropped
  bool ok() const { return !status.by_signal && status.code == 0; }
};

// What the program gets in addition to its arguments.
struct CommandSetting {
  std::vector<std::pair<std::string, std::string>> environment;  // in addition to this process's
  int programs = -1;                                             // as in Streams
  int in = -1;                                                   // -1: no input
  // Gets all of stdout so far, whenever there is more.
  std::function<void(const std::string& out)> on_output = {};
};

// Runs argv[0] (searched in PATH). A program that cannot be started is an error. A program that runs longer
// than `limit` is killed, which is also an error, and so are more than 64 MiB of stdout. Processes that the
// program left behind are not waited for.
Result<CommandOutput> run_command(const std::vector<std::string>& argv, std::chrono::milliseconds limit,
                                  const CommandSetting& setting = {});

}  // namespace rekindle
