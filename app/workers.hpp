// A run's worker processes: how they are started, and again when they crash.
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
  Fd output;                         // its stdout, where that is not this process's
};

// A program of this project, beside this one.
std::string program_path(const std::string& name);
// Starts rekindle-control with `arguments`.
Result<Process> start_control(const std::vector<std::string>& arguments);

// Where workers are, and how one is started there.
class Machines {
 public:
  virtual ~Machines() = default;
  virtual std::size_t count() const = 0;
  virtual std::string name(std::size_t machine) const = 0;
  // Starts `rekindle-control worker` with `arguments`.
  virtual Result<Process> start(std::size_t machine, const std::vector<std::string>& arguments) = 0;
  // A line that the worker's process there has printed. True: nobody else needs to read it.
  virtual bool take_line(std::size_t, const Process&, const std::string&) { return false; }
  // That process has ended. Returns how long to wait before another one is started there, at least.
  virtual Clock::duration on_end(std::size_t, const ExitStatus&) { return {}; }
  // The machine is gone, and will not be back.
  virtual bool gone(std::size_t) const { return false; }
};

// This machine, with some workers.
class ThisMachine : public Machines {
 public:
  explicit ThisMachine(std::size_t workers) : workers_(workers) {}
  std::size_t count() const override { return workers_; }
  std::string name(std::size_t machine) const override;
  Result<Process> start(std::size_t machine, const std::vector<std::string>& arguments) override;

 private:
  const std::size_t workers_;
};

// How long to wait before a crashed process is started again: longer each time, unless it lasted.
class Backoff {
 public:
  Clock::duration next(Clock::time_point started);
  int crashes() const { return crashes_; }

 private:
  int crashes_ = 0;
};

// One worker on each machine: started again, under new names, when they crash.
class Workers {
 public:
  Workers(Machines& machines, std::vector<std::string> arguments)
      : machines_(machines), arguments_(std::move(arguments)) {}

  Status start_all(std::uint64_t term);
  void watch(std::vector<pollfd>& waits) const;
  std::size_t watched() const { return 2 * slots_.size(); }  // entries that watch() adds

  struct End {
    std::string worker;
    ExitStatus status;
  };
  // Those that have ended, as `waits` (filled by watch()) says.
  std::vector<End> reap(std::span<const pollfd> waits);
  // Whole lines that they have printed.
  std::vector<std::string> read(std::span<const pollfd> waits);
  void restart_due();

  // Their names: those of a worker's trainers begin with "NAME.".
  std::vector<std::string> names() const;
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
    std::string output;  // a line's beginning
    Clock::time_point started, restart_at;
    Backoff backoff;
    bool done = false;
  };
  Status start_one(std::size_t machine);

  Machines& machines_;
  const std::vector<std::string> arguments_;
  std::uint64_t term_ = 0;
  int exit_code_ = 0;
  std::vector<Slot> slots_;
};

}  // namespace rekindle::app
