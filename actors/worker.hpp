// The worker process: starts and watches its node's trainers and carries words between them and the
// coordinator.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/files.hpp"
#include "protocol/job.hpp"
#include "run/layout.hpp"

namespace rekindle::actors {

// Decides how long a worker goes on after its supervisor has died.
class Keeper {
 public:
  virtual ~Keeper() = default;
  // The supervisor's socket has ended. A descriptor: the worker goes on until it is readable.
  virtual int supervisor_gone() = 0;
  // The worker's trainers have ended, and it ends when this returns.
  virtual void before_leaving() = 0;
};

struct WorkerOptions {
  run::Layout layout;
  protocol::Job job;
  std::string name;  // random, never reused
  std::string build;
  std::string trainer_program;
  bool joined = false;                            // by rekindle join: the run does not need it
  std::uint64_t term = 0;                         // the least term to obey
  std::chrono::milliseconds alone_limit{600000};  // without a coordinator; then it leaves with 75
  Keeper* keeper = nullptr;                       // nullptr: the worker leaves when its supervisor is gone
};

// Returns when the run is over for this node; the exit code.
int run_worker(const WorkerOptions& options, Fd supervisor_socket);

}  // namespace rekindle::actors
