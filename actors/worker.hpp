// The worker process: starts and watches its node's trainers and passes messages between them and the
// coordinator.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/files.hpp"
#include "protocol/job.hpp"
#include "run/layout.hpp"

namespace rekindle::actors {

// Decides how long a worker continues after its supervisor has died.
class Keeper {
 public:
  virtual ~Keeper() = default;
  // The supervisor's socket has ended. Returns a descriptor: the worker continues until that is readable.
  virtual int supervisor_gone() = 0;
  // The worker's trainers have ended; the worker ends when this function returns.
  virtual void before_leaving() = 0;
};

struct WorkerOptions {
  run::Layout layout;
  protocol::Job job;
  std::string name;  // random, never reused
  std::string build;
  bool joined = false;                            // by rekindle join: the run does not need it
  std::uint64_t term = 0;                         // terms below this one are not obeyed
  std::chrono::milliseconds alone_limit{600000};  // without a coordinator; then the worker exits with 75
  int number = 0;                                 // among the workers that this machine started together
  Keeper* keeper = nullptr;                       // nullptr: the worker leaves when its supervisor is gone
  std::optional<Error> refusal = {};              // why no trainer may be started on this node
};

// Returns when the run is over for this node; the exit code.
int run_worker(const WorkerOptions& options, Fd supervisor_socket);

}  // namespace rekindle::actors
