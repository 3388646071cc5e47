// The worker without its trainers: the actor around protocol::Worker, the search for coordinators and the
// connection. No CAF types in this header.
#pragma once

#include <string>

#include "base/process.hpp"
#include "base/result.hpp"
#include "protocol/worker.hpp"
#include "run/layout.hpp"

namespace rekindle::actors {

// The interface of a worker to its trainers: real processes (TrainerGroup), or simulated ones in bench/scale.
// Called from the actor's thread.
class Trainers {
 public:
  virtual ~Trainers() = default;
  virtual Status start(const std::string& trainer) = 0;
  // A protocol::ToTrainer. An order to a trainer that does not exist is dropped.
  virtual void send(const std::string& trainer, const std::string& message) = 0;
  virtual void kill(const std::string& trainer) = 0;
  // The run is over for this worker.
  virtual void leave(int exit_code) = 0;
};

// Exists as long as its process: a thread that may be blocked in storage or in a connect cannot be stopped.
class WorkerHost {
 public:
  WorkerHost(const run::Layout& layout, const protocol::WorkerConfig& worker, Trainers& trainers);
  WorkerHost(const WorkerHost&) = delete;
  WorkerHost& operator=(const WorkerHost&) = delete;

  // From any thread: a trainer sent a protocol::FromTrainer; a trainer ended.
  void on_message(const std::string& trainer, std::string message);
  void on_end(const std::string& trainer, const ExitStatus& status);

 private:
  struct Parts;
  Parts* parts_;  // never deleted, see above
};

}  // namespace rekindle::actors
