// The worker without its trainers: the actor around protocol::Worker, its search for coordinators, its
// connection. No CAF shows here.
#pragma once

#include <string>

#include "base/process.hpp"
#include "base/result.hpp"
#include "protocol/worker.hpp"
#include "run/layout.hpp"

namespace rekindle::actors {

// What a worker does to its trainers: real processes (TrainerGroup), or those of bench/scale. Called from the
// actor's thread.
class Trainers {
 public:
  virtual ~Trainers() = default;
  virtual Status start(const std::string& trainer) = 0;
  // A protocol::ToTrainer. Orders to a trainer that is not there are dropped.
  virtual void send(const std::string& trainer, const std::string& message) = 0;
  virtual void kill(const std::string& trainer) = 0;
  // The run is over for this worker.
  virtual void leave(int exit_code) = 0;
};

// Lives as long as its process: there is no way to take down a thread that may be blocked in storage or in a
// connect.
class WorkerHost {
 public:
  WorkerHost(const run::Layout& layout, const protocol::WorkerConfig& worker, Trainers& trainers);
  WorkerHost(const WorkerHost&) = delete;
  WorkerHost& operator=(const WorkerHost&) = delete;

  // From any thread: a trainer said a protocol::FromTrainer; a trainer ended.
  void said(const std::string& trainer, std::string message);
  void ended(const std::string& trainer, const ExitStatus& status);

 private:
  struct Parts;
  Parts* parts_;  // never deleted, see above
};

}  // namespace rekindle::actors
