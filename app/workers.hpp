// A run's worker processes: their start, and their restart after a crash.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/container.hpp"
#include "base/channel.hpp"
#include "base/line_splitter.hpp"
#include "base/process.hpp"
#include "run/layout.hpp"

namespace rekindle::app {

using Clock = std::chrono::steady_clock;

// The longest wait for the processes below, because some conditions must be polled.
inline constexpr std::chrono::milliseconds kTurn{100};

struct Process {
  Child child;
  std::unique_ptr<Channel> channel;  // end of file on this socket tells the child to leave
  Fd output;                         // the child's stdout, if not shared with this process
  bool leads_group = false;          // the child is a container's runtime, whose processes are in its group
};

// Starts rekindle-control with `arguments`.
Result<Process> start_control(const std::vector<std::string>& arguments);

// `rekindle-control worker` of a run.
std::vector<std::string> worker_of(const run::Layout& layout);

// The machines of the workers, and the way to start a worker there.
class Machines {
 public:
  virtual ~Machines() = default;
  virtual std::size_t count() const = 0;
  virtual std::string name(std::size_t machine) const = 0;
  // Starts `rekindle-control worker` with `arguments`.
  virtual Result<Process> start(std::size_t machine, const std::vector<std::string>& arguments) = 0;
  // Takes a line that the worker's process there has printed. True: the line needs no further handling.
  virtual bool take_line(std::size_t, const Process&, const std::string&) { return false; }
  // That process has ended. Returns the least time to wait before another process is started there.
  virtual Clock::duration on_end(std::size_t, const ExitStatus&) { return {}; }
  // Whether the machine is gone permanently.
  virtual bool gone(std::size_t) const { return false; }
};

// This machine, with some workers, each in a container of its own if the job has one.
class ThisMachine : public Machines {
 public:
  explicit ThisMachine(std::size_t workers, Contained how = {}) : workers_(workers), how_(std::move(how)) {}
  std::size_t count() const override { return workers_; }
  std::string name(std::size_t machine) const override;
  Result<Process> start(std::size_t machine, const std::vector<std::string>& arguments) override;

 private:
  const std::size_t workers_;
  const Contained how_;
};

// How long to wait before a crashed process is started again. The wait grows with each crash, unless the
// process ran for long.
class Backoff {
 public:
  Clock::duration next(Clock::time_point started);
  int crashes() const { return crashes_; }

 private:
  int crashes_ = 0;
};

// One worker on each machine. A crashed worker is started again under a new name.
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
  // The workers that have ended, according to `waits` (filled by watch()). In the first process of a
  // container, each call also removes the processes that workers have left behind (reap_orphans()).
  std::vector<End> reap(std::span<const pollfd> waits);
  // Complete lines that the workers have printed.
  std::vector<std::string> read(std::span<const pollfd> waits);
  void restart_due();

  // The names of the workers; the names of a worker's trainers begin with "NAME.".
  std::vector<std::string> names() const;
  bool running() const;
  bool done() const;                            // all workers have left deliberately
  int exit_code() const { return exit_code_; }  // exit code of the worker that left last

  // Closes the workers' sockets; end of file tells a worker to leave.
  void dismiss();
  void kill_all();

 private:
  struct Slot {
    std::string name;
    std::optional<Process> process;
    LineSplitter lines;
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
