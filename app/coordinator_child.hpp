// The supervisor's view of the coordinator's process: messages, silence, crashes and restarts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/workers.hpp"
#include "protocol/messages.hpp"

namespace rekindle::app {

class CoordinatorChild {
 public:
  Status start(const std::vector<std::string>& arguments);
  bool runs() const { return process_.has_value(); }
  // Whether the process that was started last has reported CoordinatorUp.
  bool is_up() const { return up_; }
  // Readable: a message, or the end of the process. -1: none.
  int messages_fd() const;
  int end_fd() const;

  void send(const protocol::ToCoordinator& message);
  // The next message; nullopt: the process has closed its socket, and its end follows.
  Result<std::optional<protocol::ToSupervisor>> receive();
  // Kills the process if it has sent nothing for `limit`: a coordinator sends a message each second. Time in
  // which this process was itself suspended does not count. True: it was killed, for the first time.
  bool kill_if_silent(Clock::duration limit);

  // After the process has ended.
  ExitStatus reap();
  // Plans the next start. False: too many processes crashed in a row. An exit, or a SIGKILL from another
  // process, does not count as a crash.
  bool schedule_restart(const ExitStatus& status);
  // The same if the process could not be started at all.
  void schedule_retry() { restart_at_ = Clock::now() + restarts_.next(started_); }
  bool restart_is_due() const { return !runs() && Clock::now() >= restart_at_; }

  void wait();  // for the end of the process, if it runs
  void kill();

 private:
  std::optional<Process> process_;
  bool up_ = false;
  bool hung_ = false;           // kill_if_silent() has killed the process
  Backoff crashes_, restarts_;  // restarts_: after an end that is not a crash
  Clock::time_point restart_at_;
  Clock::time_point started_, last_message_ = Clock::now(), last_look_ = Clock::now();
};

}  // namespace rekindle::app
