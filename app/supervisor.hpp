// The supervisor: owns signals, starts coordinator and workers, tells the person. No CAF, no torch.
#pragma once

#include <chrono>
#include <filesystem>

#include "app/options.hpp"

namespace rekindle::app {

// From now on signals wait until run_local() takes them: none may end this process raw.
void hold_signals();

// Runs a job on this machine until it ends; the exit code. `options` has been prepared.
int run_local(const LocalOptions& options);

struct JoinOptions {
  std::filesystem::path run_dir;
  std::uint64_t workers = 1;
  std::chrono::milliseconds wait{600000};  // for the run's coordinator, when it is away
  std::string interface, port_range;       // where the trainers listen; empty: as the run does
};
// Adds workers on this machine to a run, until the run ends; the exit code.
int run_join(const JoinOptions& options);

}  // namespace rekindle::app
