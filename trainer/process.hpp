// A trainer process: connects a Trainer to the real socket, storage, clock and exchange.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/process.hpp"
#include "base/result.hpp"
#include "protocol/job.hpp"
#include "run/layout.hpp"
#include "trainer/task.hpp"

namespace rekindle::trainer {

struct TrainerConfig {
  protocol::Job job;
  run::Layout layout;
  std::string trainer;  // its id: random, never reused
  std::string build;    // identifies the program
};

using MakeTask = std::function<Result<std::unique_ptr<Task>>(const protocol::Job& job)>;

// Returns after Quit from the coordinator. An error has already been logged, and sent to the worker. After an
// error of a task on a device the process ends here.
Status run_trainer(const TrainerConfig& config, const MakeTask& make_task, Fd worker_socket);

}  // namespace rekindle::trainer
