// This machine's processes of a run: how they are started, and again when they crash.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/channel.hpp"
#include "base/process.hpp"

namespace rekindle::app {

using Clock = std::chrono::steady_clock;

// How long a wait for the processes below may last, for some things are only looked at.
inline constexpr std::chrono::milliseconds kTurn{100};

struct Process {
  Child child;
  std::unique_ptr<Channel> channel;  // its end of file tells the child to go
};

// Starts rekindle-control with `arguments`.
Result<Process> start_control(const std::vector<std::string>& arguments);

// How long to wait before a crashed process is started again: longer each time, unless it lasted.
class Backoff {
 public:
  Clock::duration next(Clock::time_point started);
  int crashes() const { return crashes_; }

 private:
  int crashes_ = 0;
};

// The workers of this machine: started again, under new names, when they crash.
class LocalWorkers {
 public:
  explicit LocalWorkers(std::vector<std::string> arguments) : arguments_(std::move(arguments)) {}

  Status start_all(std::uint64_t count, std::uint64_t term);
  void watch(std::vector<pollfd>& waits) const;

  struct End {
    std::string worker;
    ExitStatus status;
  };
  // Those that have ended, as `waits` (filled by watch()) says.
  std::vector<End> reap(std::span<const pollfd> waits);
  void restart_due();

  bool running() const;
  bool done() const;                            // all of them left because they were told to
  int exit_code() const { return exit_code_; }  // of the one that left last

  // End of file on their sockets tells them to go.
  void dismiss();
  void kill_all();

 private:
  struct Slot {
    std::string name;
    std::optional<Process> process;
    Clock::time_point started, restart_at;
    Backoff backoff;
    bool done = false;
  };
  Status start_one(Slot& slot, std::size_t number);

  const std::vector<std::string> arguments_;
  std::uint64_t term_ = 0;
  int exit_code_ = 0;
  std::vector<Slot> slots_;
};

}  // namespace rekindle::app
