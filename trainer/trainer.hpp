// A trainer process: one replica, generations one after the other, until Quit.
#pragma once

#include <filesystem>
#include <string>

#include "base/files.hpp"
#include "base/result.hpp"
#include "protocol/job.hpp"

namespace rekindle::trainer {

struct TrainerConfig {
  protocol::Job job;
  std::filesystem::path run_dir;
  std::string trainer;  // its id: random, never reused
  std::string build;    // identifies the program
};

// Returns when the coordinator says Quit. An error has been told to the worker.
Status run_trainer(const TrainerConfig& config, Fd worker_socket);

}  // namespace rekindle::trainer
