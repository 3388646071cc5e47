#include "app/slurm_next.hpp"

#include "app/report.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "slurm/attempt_end.hpp"
#include "slurm/deadline.hpp"

namespace rekindle::app {

slurm::Queue queue_for_next(const SlurmJob& job, const run::Layout& layout, std::chrono::minutes pause,
                            std::string& successor) {
  if (job.on_limit != OnLimit::kResubmit) return slurm::queue_of(job.environment);
  return slurm::resubmission_of(job.environment, layout.resubmit_script().path(), pause, successor);
}

NextJob ask_for_next(const SlurmJob& job, const run::Layout& layout, const SlurmLog& log,
                     const SavedState& saved, const FreshAnswer& fresh) {
  const slurm::Environment& environment = job.environment;
  log.note_request(saved.cause, saved.step);
  const bool resubmit = job.on_limit == OnLimit::kResubmit;
  const std::chrono::minutes pause = slurm::pause_after(saved.cause, saved.futile_attempts);
  NextJob next;
  const slurm::Requeued done =
      slurm::requeue_once(queue_for_next(job, layout, pause, next.job), environment.restarts,
                          job.requeue_within, resubmit ? std::nullopt : fresh());
  next.accepted = done.accepted;
  if (!done.accepted) {
    warn(str("the state of step ", saved.step, " is saved, but job ", environment.id(), " is not ",
             resubmit ? "submitted again" : "requeued", ": ", done.detail, ": ",
             done.may_be && !resubmit ? slurm::how_to_go_on(environment.id()) : "submit it again to go on"));
    return next;
  }
  if (!next.job.empty()) log.note_request(saved.cause, saved.step, next.job);
  std::string when = pause.count() == 0 ? "" : str(", in ", pause.count(), " minutes at the earliest");
  if (pause.count() > 0 && next.job.empty()) {
    if (const Status later = slurm::start_later(environment.id(), pause); !later) {
      log_warning(later.error().line());
      when.clear();
    }
  }
  const std::string how = next.job.empty() ? "requeued" : "resubmitted as job " + next.job;
  say(str(how, " (", slurm::to_text(saved.cause), "): the next attempt goes on from step ", saved.step,
          when));
  return next;
}

void cancel_without_script(const SlurmJob& job, slurm::Cause cause) {
  const slurm::Environment& environment = job.environment;
  const auto facts = slurm::show_job(environment.id());
  if (!facts || facts->restarts != environment.restarts || slurm::is_over(*facts)) return;
  say(str("job ", environment.id(), " has lost its batch ",
          cause == slurm::Cause::kBatchHostLost ? "host" : "script",
          " and is not requeued: it is cancelled"));
  if (const Status cancelled = slurm::cancel(environment.id()); !cancelled)
    log_warning(cancelled.error().line());
}

}  // namespace rekindle::app
