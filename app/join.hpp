// Workers for a run that somebody else started. No CAF, no torch.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

namespace rekindle::app {

struct JoinOptions {
  std::filesystem::path run_dir;
  std::uint64_t workers = 1;
  std::chrono::milliseconds wait{600000};  // for the run's coordinator, when it is away
  std::string interface, port_range;       // where the trainers listen; empty: as the run does
};
// Adds workers on this machine to a run, until the run ends; the exit code.
int run_join(const JoinOptions& options);

}  // namespace rekindle::app
