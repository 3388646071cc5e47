// The signals by which a user or Slurm ends a run, as a file descriptor.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "base/files.hpp"
#include "base/result.hpp"

namespace rekindle::app {

enum class Hangup {
  kHeld,
  kAsStarted  // ignored, if this process was started so (nohup), which includes the children of a supervisor
};

// From now on SIGINT, SIGTERM, SIGUSR1 and SIGHUP stay pending until they are read, and SIGPIPE is ignored,
// so none of them ends this process directly. Children start with these signals ignored, not blocked (spawn()
// clears the mask).
void hold_signals(Hangup hangup = Hangup::kAsStarted);

// Whether one of these signals is pending.
bool stop_is_asked();

// Holds the signals, and returns the descriptor to read signalfd_siginfo from. Source: signalfd(2).
Result<Fd> take_signals();

// 130 for SIGINT, 75 for the others.
int usual_exit_code(int signal);

// While this object exists, a signal ends this process at once: before a run begins there is nothing to save,
// and reading the input may take long. For a process that holds its signals; afterwards they are held again.
class EndOnSignal {
 public:
  // `last_act` is called before the exit and returns the exit code. The call comes from another thread, while
  // the process continues; the destructor of this object waits for the call.
  explicit EndOnSignal(std::function<int(int signal)> last_act = usual_exit_code);
  ~EndOnSignal();
  EndOnSignal(const EndOnSignal&) = delete;
  EndOnSignal& operator=(const EndOnSignal&) = delete;

 private:
  Fd done_;  // an eventfd
  std::thread thread_;
};

// A worker on another node does not interpret signals: from now on the worker prints each signal as a line,
// which the supervisor parses with signal_in(). Call this before other threads exist.
void report_signals();
std::optional<int> signal_in(const std::string& line);

// Prints the worker's Slurm step, "JOB.STEP", as its first line. Prints nothing outside of a Slurm step.
void report_step();
std::optional<std::string> step_in(const std::string& line);

}  // namespace rekindle::app
