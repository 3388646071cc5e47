#include "app/slurm_stop.hpp"

#include <algorithm>
#include <csignal>
#include <thread>

namespace rekindle::app {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using std::chrono::system_clock;

SlurmStop::SlurmStop(slurm::JobWatch& watch, milliseconds kill_wait, milliseconds within) : watch_(watch) {
  stop_.kill_wait = kill_wait;
  if (within.count() > 0) within_ = within;
}

void SlurmStop::on_signal(int signal, bool to_worker) {
  const auto now = system_clock::now();
  worker_signals_ += to_worker ? 1 : 0;
  signalled_here_ = signalled_here_ || !to_worker;
  const bool ends_it = signal == SIGTERM && (!stop_.terminated || meant_nothing(now));
  // Each node forwards the signal, but one query of Slurm is enough.
  if (signal_ == 0 || ends_it) asked_ = watch_.look();
  if (ends_it) stop_.terminated = now;
  if (signal_ != 0) return;
  signal_ = signal;
  stop_.signalled = now;
}

void SlurmStop::on_answer() {
  const auto look = watch_.latest();
  if (!look) return;
  if (signal_ == 0)
    stop_.end = look->facts.end;
  else if (look->facts.preempted && look->number >= asked_)
    preempting_ = true;
}

void SlurmStop::on_terminated() { stop_.terminated = system_clock::now(); }

std::optional<steady_clock::time_point> SlurmStop::limit() const {
  return signal_ != 0 ? deadline(within_, milliseconds(0)) : std::nullopt;
}

std::optional<steady_clock::time_point> SlurmStop::end_of_time() const {
  constexpr seconds kReadSoon{5};
  // The user's own limit ends no job.
  const auto known = signal_ != 0 ? deadline(std::nullopt, milliseconds(0)) : std::nullopt;
  if (known) return known;
  const auto later = deadline(std::nullopt, slurm::kAnswerPatience);
  if (!later) return std::nullopt;
  const auto now = system_clock::now();
  const auto wait = signal_ != 0 ? stop_.signalled + slurm::kAnswerPatience - now : kReadSoon;
  return std::max(*later, steady_clock::now() + std::chrono::duration_cast<steady_clock::duration>(wait));
}

// As it will be `from_now`, if there is no other answer until then. nullopt: no limit.
std::optional<steady_clock::time_point> SlurmStop::deadline(std::optional<milliseconds> within,
                                                            milliseconds from_now) const {
  const auto now = system_clock::now();
  slurm::Stopping stop = stop_;
  if (signal_ == 0) stop.signalled = now;
  stop.answer = answer();
  stop.within = within;
  const auto deadline = slurm::stop_deadline(stop, now + from_now);
  if (!deadline) return std::nullopt;
  return steady_clock::now() + std::chrono::duration_cast<steady_clock::duration>(*deadline - now);
}

std::optional<slurm::JobFacts> SlurmStop::answer() const {
  const auto look = watch_.latest();
  if (!look || look->number < asked_) return std::nullopt;
  return look->facts;
}

std::optional<slurm::JobFacts> SlurmStop::fresh_answer() const {
  constexpr seconds kFresh{2};
  const auto look = watch_.latest();
  return look && steady_clock::now() - look->at < kFresh ? answer() : std::nullopt;
}

void SlurmStop::await_answer(milliseconds patience) {
  constexpr milliseconds kPause{10};
  const auto until = steady_clock::now() + patience;
  while (!answer() && steady_clock::now() < until) std::this_thread::sleep_for(kPause);
  watch_.on_read();
  on_answer();
}

void SlurmStop::complete(slurm::Seen& seen, std::size_t nodes_left) const {
  seen.facts = answer();
  seen.preempting = preempting_;
  seen.host_stops = seen.facts && watch_.latest()->host_stops;
  seen.some_nodes_alone = !signalled_here_ && worker_signals_ < nodes_left;
  seen.limit = stop_.end;
  seen.signalled_at = stop_.signalled;
}

// Whether Slurm has answered that the last SIGTERM was not the job's end, and time has passed since.
bool SlurmStop::meant_nothing(slurm::SystemTime now) const {
  constexpr seconds kAllNodesHaveForwardedIt{2};
  const auto facts = answer();
  return facts && !slurm::is_over(*facts) && now - *stop_.terminated > kAllNodesHaveForwardedIt;
}

}  // namespace rekindle::app
