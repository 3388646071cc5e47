// The supervisor's loop: signals, the coordinator's process and the workers, until the run ends. Internal to
// app/supervisor.cpp, supervisor_loop.cpp and supervisor_ends.cpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "app/coordinator_child.hpp"
#include "app/progress.hpp"
#include "app/supervisor.hpp"
#include "app/watchers.hpp"
#include "base/files.hpp"
#include "protocol/messages.hpp"
#include "run/layout.hpp"

namespace rekindle::app {

// The signals and the request to stop the run.
struct StopWish {
  int signal = 0;                            // the first signal that this process got; 0: none
  bool interrupted = false;                  // a signal was Ctrl-C
  std::optional<protocol::StopRun> request;  // for the coordinator, and for each coordinator after that
  std::optional<Clock::time_point> limit;    // the time limit that was sent last
};

// The state of a take-over: the run's first process has died, and this process continues the run.
struct TakingOver {
  TakeOver how;
  bool taken = false;       // this process's coordinator holds the run
  int cannot_listen = 0;    // how many coordinators could not listen
  bool saves_only = false;  // other machines cannot reach the coordinator: save this machine's state only
  Clock::time_point began = Clock::now();
};

struct RunEnd {
  bool ended = false;                 // the coordinator has reported the end, or the run was given up
  std::optional<int> exit_code;       // of the run; nullopt when `ended`: another process has the run
  bool may_pass = false;              // as in RunResult
  std::optional<int> site_exit_code;  // the site's result for exit_code
};

// What the first coordinator of an attempt brings about when it is up: only the holder of the run may do
// this.
struct Beginning {
  InitialState initial;          // empty as soon as the state is on disk
  Watchers* watchers = nullptr;  // null in a take-over
};

class Supervisor {
 public:
  Supervisor(Site& site, const LocalOptions& options, Beginning beginning, Workers& workers);
  Supervisor(Site& site, const LocalOptions& options, Workers& workers, const TakeOver& how);

  // Without an exit code: another process supervises the run that this process tried to take over.
  Result<TakenOver> run();

  // Calls the site's ended() once. Returns this process's exit code.
  int end_site(const RunResult& result);

  void kill_all();

 private:
  // supervisor_loop.cpp
  Status start_coordinator();
  Status turn();  // waits for an event and handles it
  void on_signal();
  void stop(int signal, bool to_worker);
  void send_stop();
  void send_stop_if_sooner();

  Status on_message();
  Status take(const protocol::Say& say);
  Status take(const protocol::CoordinatorBeat& beat);
  Status take(const protocol::Progress& progress);
  // The site acts as soon as the run is saved (a requeue, say), without waiting for the trainers' exit.
  Status take(const protocol::Ended& ended);
  Status take(const protocol::CoordinatorUp& up);

  void on_worker_end(const Workers::End& end);
  // A line may report a signal on a node: Slurm may signal only the nodes, or the nodes long before this
  // process.
  void on_worker_line(const std::string& line);

  // supervisor_ends.cpp
  // Records the end of the term. If the coordinator was killed, the end is not recorded yet, and a rekindle
  // join process would take the run over.
  void mark_end();
  bool has_ended() const;          // another process has taken the run over and ended it
  bool another_took_over() const;  // another process holds a later term than the lost one
  // Called if no coordinator can listen on an address that other machines can reach, for example because its
  // ports are in use. The run then saves the state of this machine's trainers, and ends.
  void save_only(protocol::Job& job);
  void restart_coordinator();  // retries later if no process can be started (no memory, say)
  void on_end(const protocol::Ended& end);
  // Schedules a restart. Training goes on without a coordinator, but only a coordinator forms generations and
  // saves the state.
  void on_coordinator_end();
  std::string how_to_go_on() const;
  std::string how_to_start_again() const;
  void judge_coordinator();
  bool must_take_over() const { return taking_over_ && !taking_over_->taken; }
  void judge_take_over();

  Site& site_;
  const LocalOptions& options_;
  Beginning beginning_;
  run::Layout layout_;
  ProgressView view_{stdout, options_.job.log_interval};
  Fd signals_;
  CoordinatorChild coordinator_;
  Workers& workers_;
  std::optional<TakingOver> taking_over_;
  std::uint64_t attempt_ = 0;  // 0: no coordinator has been up yet
  StopWish stop_;
  RunEnd end_;
};

}  // namespace rekindle::app
