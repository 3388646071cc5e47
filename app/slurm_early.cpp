#include "app/slurm_early.hpp"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

#include "app/places.hpp"
#include "app/report.hpp"
#include "app/slurm_next.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "slurm/attempt_end.hpp"
#include "slurm/requeue.hpp"

namespace rekindle::app {

struct EarlyRequest::Shared {
  Shared(const SlurmJob& of, const SlurmLog& with, const run::Layout& of_run, const Attempt& ending)
      : job(of), log(with), layout(of_run), attempt(ending) {}

  const SlurmJob job;
  SlurmLog log;
  const run::Layout layout;
  const Attempt attempt;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<slurm::Requeued> answer;
  std::atomic<bool> counted = false;

  void set(const slurm::Requeued& done) {
    const std::scoped_lock lock(mutex);
    answer = done;
    changed.notify_all();
  }

  void run() {
    if (attempt.last && saved_step(layout) == attempt.step_at_start)
      return set({false, true, "too many attempts in a row saved nothing"});  // ended() says so
    std::string successor;
    const slurm::Queue queue = queue_for_next(job, layout, std::chrono::minutes(0), successor);
    const slurm::Requeued done = slurm::requeue_once(queue, job.environment.restarts, job.requeue_within);
    // Only now: what the job prints may go to the storage that hangs.
    warn(str(
        "the job's time is over, and the state is not saved yet: the next attempt was asked for, and goes "
        "on from the last checkpoint that is complete when Slurm ends this one"));
    if (done.accepted) note(successor);
    set(done);
  }
  // Before set(), because the end of the attempt counts it if nothing has.
  void note(const std::string& successor) {
    const std::uint64_t step = saved_step(layout);
    log.note_request(attempt.cause, step, successor);
    if (slurm::is_futile(attempt.cause, step != attempt.step_at_start))
      counted = log.count_futile(step, attempt.futile_attempts + 1);
  }
};

void EarlyRequest::start(const SlurmJob& job, const SlurmLog& log, const run::Layout& layout,
                         const Attempt& attempt) {
  if (shared_) return;
  shared_ = std::make_shared<Shared>(job, log, layout, attempt);
  try {
    std::thread([shared = shared_] { shared->run(); }).detach();
  } catch (const std::system_error& error) {
    log_warning(str("no thread to ask Slurm early: ", error.what()));
    shared_->set({false, true, ""});
  }
}

bool EarlyRequest::counted() const { return shared_ && shared_->counted; }

std::optional<slurm::Cause> EarlyRequest::accepted() const {
  if (!shared_) return std::nullopt;
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait(lock, [this] { return shared_->answer.has_value(); });
  return shared_->answer->accepted ? std::optional(shared_->attempt.cause) : std::nullopt;
}

}  // namespace rekindle::app
