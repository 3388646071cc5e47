// The requests to stop a job's attempt: signals here and on other nodes, and Slurm's answers about them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/clock.hpp"
#include "slurm/cause.hpp"
#include "slurm/deadline.hpp"
#include "slurm/job_watch.hpp"

namespace rekindle::app {

class SlurmStop {
 public:
  // `watch` outlives this object. `within`: --stop-within; 0: no limit.
  SlurmStop(slurm::JobWatch& watch, std::chrono::milliseconds kill_wait, std::chrono::milliseconds within);

  void on_signal(int signal, bool to_worker);
  void on_answer();      // `watch` has a new answer
  void on_terminated();  // Slurm has ended the job: KillWait runs from now on

  int signal() const { return signal_; }  // the first signal that asked to stop; 0: none
  bool is_terminated() const { return stop_.terminated.has_value(); }
  // The time by which the state must be saved. nullopt: no limit.
  std::optional<std::chrono::steady_clock::time_point> limit() const;
  // When the time that Slurm gives this job is over, if Slurm gives no other answer until then. Without a
  // signal this is some seconds from now at least: the signal may be there already, and be read soon.
  // nullopt: no limit.
  std::optional<std::chrono::steady_clock::time_point> end_of_time() const;
  // Slurm's newest answer since the newest signal.
  std::optional<slurm::JobFacts> answer() const;
  // The same, if the answer is new enough for a requeue: after an older answer, the job may have been
  // requeued already.
  std::optional<slurm::JobFacts> fresh_answer() const;
  // Waits for the answer to the newest signal, for `patience` at most.
  void await_answer(std::chrono::milliseconds patience);
  // Adds the known facts about the stop. `nodes_left`: how many nodes the job still has, by the newest
  // answer.
  void complete(slurm::Seen& seen, std::size_t nodes_left) const;

 private:
  std::optional<std::chrono::steady_clock::time_point> deadline(
      std::optional<std::chrono::milliseconds> within, std::chrono::milliseconds from_now) const;
  bool meant_nothing(slurm::SystemTime now) const;

  slurm::JobWatch& watch_;
  int signal_ = 0;
  std::uint64_t asked_ = 0;                          // the number of the query about the newest signal
  slurm::Stopping stop_;                             // since signal_, without an answer and the user's limit
  std::optional<std::chrono::milliseconds> within_;  // the user's limit
  std::size_t worker_signals_ = 0;                   // number of signals that nodes have forwarded
  bool signalled_here_ = false;                      // this process has received a signal
  bool preempting_ = false;  // Slurm reported a preemption at any time since the signal
};

}  // namespace rekindle::app
