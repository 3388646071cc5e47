// The environment of a run: the machines of its workers, the meaning of signals, and the actions after its
// end.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/workers.hpp"

namespace rekindle::app {

struct RunResult {
  int exit_code = 0;
  bool may_pass = false;  // an error that a later attempt may not meet
};

class Site {
 public:
  virtual ~Site() = default;
  virtual Machines& machines() = 0;
  virtual std::uint64_t trainers() const = 0;  // number of trainers to wait for at the start
  virtual std::vector<std::string> worker_arguments() const = 0;
  // A coordinator is up: this is the run's attempt `number`.
  virtual void begun(std::uint64_t number) { std::ignore = number; }
  virtual void trains() {}  // called when steps of this attempt were made
  // This process, or a worker, has received a signal that asks the run to stop.
  virtual void on_signal(int signal, bool to_worker) = 0;
  // The time at which the state must be durable, after such a signal; later calls may return an earlier time.
  virtual std::optional<Clock::time_point> limit() = 0;
  // Called repeatedly until ended(): the state is not saved yet.
  virtual void await_save() {}
  // Readable when limit() or machines() has changed: then on_readable() takes the change over.
  virtual int fd() const { return -1; }
  virtual void on_readable() {}
  // A worker has ended without an order to leave.
  virtual void lost_worker() {}
  // Whether a line that a worker, or the worker's launcher, has printed need not be shown.
  virtual bool is_noise(const std::string&) const { return false; }
  // The run has ended: the state is saved, and the processes are leaving. Returns the exit code of this
  // process.
  virtual int ended(const RunResult& result) { return result.exit_code; }
  // The processes have left.
  virtual void left() {}
};

}  // namespace rekindle::app
