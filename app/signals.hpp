// The signals by which a person or Slurm ends a run, as a file descriptor.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "base/files.hpp"
#include "base/result.hpp"

namespace rekindle::app {

// From now on SIGINT, SIGTERM, SIGUSR1 and SIGHUP wait until somebody reads them: none may end this process
// raw, nor may SIGPIPE. Children begin with them ignored, not blocked (spawn() clears the mask).
void hold_signals();

// Whether one of them waits.
bool stop_is_asked();

// Holds them, and gives the descriptor to read signalfd_siginfo from. Source: signalfd(2).
Result<Fd> take_signals();

// 130 for SIGINT, 75 for the others.
int usual_exit_code(int signal);

// While it lives, a signal ends this process at once: before a run begins there is nothing to save, and its
// input may take long to read. For a process that holds its signals; afterwards they are held again.
class EndOnSignal {
 public:
  // `last_act` is called before the end, from another thread, while this process goes on with whatever it
  // does, but not beyond the life of this object. It gives the exit code.
  explicit EndOnSignal(std::function<int(int signal)> last_act = usual_exit_code);
  ~EndOnSignal();
  EndOnSignal(const EndOnSignal&) = delete;
  EndOnSignal& operator=(const EndOnSignal&) = delete;

 private:
  Fd done_;  // an eventfd
  std::thread thread_;
};

// A worker on another node has no say in what a signal means: from now on it prints each one as a line, which
// signal_in() knows at the other end. Before there are other threads.
void report_signals();
std::optional<int> signal_in(const std::string& line);

// The same worker's first line: which step of Slurm it is, "JOB.STEP". Prints nothing if it is none.
void report_step();
std::optional<std::string> step_in(const std::string& line);

}  // namespace rekindle::app
