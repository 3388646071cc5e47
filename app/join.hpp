// Workers for a run that another process started. No CAF, no torch.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

namespace rekindle::app {

struct JoinOptions {
  std::filesystem::path run_dir;
  std::uint64_t workers = 1;
  std::chrono::milliseconds wait{600000};  // for the run's coordinator, if it has none (any more)
  std::string interface, port_range;       // where the trainers listen; empty: the run's settings
};
// Adds workers on this machine to a run until the run ends. await_run() has waited for its first attempt.
// Returns the exit code.
int run_join(const JoinOptions& options);

}  // namespace rekindle::app
