#include "app/slurm_early.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "app/places.hpp"
#include "app/report.hpp"
#include "app/slurm_next.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "slurm/attempt_end.hpp"
#include "slurm/requeue.hpp"

namespace rekindle::app {

struct EarlyRequest::Shared {
  Shared(const SlurmJob& of, const SlurmLog& with, const run::Layout& of_run)
      : job(of), log(with), layout(of_run) {}

  const SlurmJob job;
  SlurmLog log;
  const run::Layout layout;
  std::mutex mutex;
  std::condition_variable changed;
  enum class State { kWaits, kCancelled, kStarted } state = State::kWaits;
  std::optional<std::chrono::steady_clock::time_point> when;
  Attempt attempt{};
  std::uint64_t calls = 0;  // of EarlyRequest::set()
  std::optional<slurm::Requeued> answer;
  std::atomic<bool> counted = false;

  // The attempt for which to ask, at its time; nullopt: cancelled.
  std::optional<Attempt> wait() {
    std::unique_lock lock(mutex);
    while (state == State::kWaits) {
      const auto until = when;
      if (!until)
        changed.wait(lock);
      else if (std::chrono::steady_clock::now() < *until)
        changed.wait_until(lock, *until);
      else if (attempt.signalled || is_silent(lock))
        break;
    }
    if (state == State::kCancelled) return std::nullopt;
    state = State::kStarted;
    return attempt;
  }

  // Whether the main thread makes no call for a while.
  bool is_silent(std::unique_lock<std::mutex>& lock) {
    constexpr std::chrono::seconds kManyTurns{2};
    const std::uint64_t before = calls;
    changed.wait_for(lock, kManyTurns, [&] { return calls != before || state != State::kWaits; });
    return calls == before;
  }

  void set(const slurm::Requeued& done) {
    const std::scoped_lock lock(mutex);
    answer = done;
    changed.notify_all();
  }

  void run() {
    const auto ending = wait();
    if (!ending) return;
    if (ending->last && saved_step(layout) == ending->step_at_start)
      return set({false, true, "too many attempts in a row saved nothing"});  // ended() says so
    std::string successor;
    const slurm::Queue queue = queue_for_next(job, layout, std::chrono::minutes(0), successor);
    const slurm::Requeued done = slurm::requeue_once(queue, job.environment.restarts, job.requeue_within);
    warn(str(
        "the job's time is over, and the state is not saved yet: the next attempt was asked for, and goes "
        "on from the last checkpoint that is complete when Slurm ends this one"));
    if (done.accepted) note(*ending, successor);
    set(done);
  }
  // Before set(), because the end of the attempt counts it if nothing has.
  void note(const Attempt& ending, const std::string& successor) {
    const std::uint64_t step = saved_step(layout);
    log.note_request(ending.cause, step, successor);
    if (slurm::is_futile(ending.cause, step != ending.step_at_start))
      counted = log.count_futile(step, ending.futile_attempts + 1);
  }
};

void EarlyRequest::set(const SlurmJob& job, const SlurmLog& log, const run::Layout& layout,
                       std::optional<std::chrono::steady_clock::time_point> when, const Attempt& attempt) {
  const bool first = !shared_;
  if (first && !when) return;
  if (first) shared_ = std::make_shared<Shared>(job, log, layout);
  {
    const std::scoped_lock lock(shared_->mutex);
    if (shared_->state != Shared::State::kWaits) return;
    shared_->attempt = attempt;
    shared_->log.set_attempt(log.attempt());
    ++shared_->calls;
    if (std::exchange(shared_->when, when) != when) shared_->changed.notify_all();
  }
  if (!first) return;
  try {
    std::thread([shared = shared_] { shared->run(); }).detach();
  } catch (const std::system_error& error) {
    log_warning(str("no thread to ask Slurm early: ", error.what()));
    cancel();
  }
}

void EarlyRequest::cancel() {
  if (!shared_) return;
  const std::scoped_lock lock(shared_->mutex);
  if (shared_->state == Shared::State::kWaits) shared_->state = Shared::State::kCancelled;
  shared_->changed.notify_all();
}

bool EarlyRequest::started() const {
  if (!shared_) return false;
  const std::scoped_lock lock(shared_->mutex);
  return shared_->state == Shared::State::kStarted;
}

bool EarlyRequest::counted() const { return shared_ && shared_->counted; }

std::optional<slurm::Cause> EarlyRequest::settle() {
  cancel();
  if (!started()) return std::nullopt;
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait(lock, [this] { return shared_->answer.has_value(); });
  return shared_->answer->accepted ? std::optional(shared_->attempt.cause) : std::nullopt;
}

}  // namespace rekindle::app
