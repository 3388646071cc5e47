// The start of a trainer process, in C++ or in Python, from the worker that started it.
#pragma once

#include <filesystem>
#include <optional>

#include "base/lifeline.hpp"
#include "trainer/process.hpp"

namespace rekindle::app {

struct StartedTrainer {
  std::optional<trainer::TrainerConfig> config;
  std::optional<Lifeline> lifeline;  // held by the calling thread
};

// Reads the command line and run.toml, and starts the log. Call it in the main thread, before the process
// sends anything to its worker. `build`: the file that identifies the program. The exit code if the process
// cannot become a trainer; the error was reported.
std::optional<int> start_trainer(int argc, char** argv, const std::filesystem::path& build,
                                 StartedTrainer& started);

}  // namespace rekindle::app
