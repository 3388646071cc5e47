// The surroundings of a run: where its workers are, what a signal means there, and what comes after its end.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/workers.hpp"

namespace rekindle::app {

class Site {
 public:
  virtual ~Site() = default;
  virtual Machines& machines() = 0;
  virtual std::uint64_t trainers() const = 0;  // to wait for at the start
  virtual std::vector<std::string> worker_arguments() const = 0;
  // A coordinator is up: this is the run's attempt `number`.
  virtual void begun(std::uint64_t number) { std::ignore = number; }
  virtual void trains() {}  // steps are made
  // A signal that asks the run to stop has come: to this process, or to a worker.
  virtual void on_signal(int signal, bool to_worker) = 0;
  // When the state must be durable, once one has come; it may become sooner.
  virtual std::optional<Clock::time_point> limit() = 0;
  virtual int fd() const { return -1; }  // readable: limit() or machines() has changed...
  virtual void heard() {}                // ... which this takes note of
  // A worker has ended, and was not told to.
  virtual void lost_worker() {}
  // A line that a worker, or what starts it, has printed, and that nobody needs to read.
  virtual bool is_noise(const std::string&) const { return false; }
  // The run has ended: what there is to save is saved, and its processes are leaving. Returns what this
  // process exits with.
  virtual int ended(int exit_code) { return exit_code; }
  // They have left.
  virtual void left() {}
};

}  // namespace rekindle::app
