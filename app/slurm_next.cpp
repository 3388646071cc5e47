#include "app/slurm_next.hpp"

#include "app/report.hpp"
#include "base/text.hpp"
#include "slurm/requeue.hpp"

namespace rekindle::app {

NextJob ask_for_next(const SlurmJob& job, const run::Layout& layout, const SlurmLog& log,
                     const SavedState& saved, const FreshAnswer& fresh) {
  const slurm::Environment& environment = job.environment;
  log.note_request(saved.cause, saved.step);
  const bool resubmit = job.on_limit == OnLimit::kResubmit;
  NextJob next;
  const slurm::Queue queue =
      resubmit ? slurm::resubmission_of(environment, layout.resubmit_script().path(), next.job)
               : slurm::queue_of(environment);
  const slurm::Requeued done =
      slurm::requeue_once(queue, environment.restarts, job.requeue_within, resubmit ? std::nullopt : fresh());
  next.accepted = done.accepted;
  if (!done.accepted) {
    warn(str("the state of step ", saved.step, " is saved, but job ", environment.id(), " is not ",
             resubmit ? "submitted again" : "requeued", ": ", done.detail, ": ",
             done.may_be && !resubmit ? slurm::how_to_go_on(environment.id()) : "submit it again to go on"));
    return next;
  }
  if (!next.job.empty()) log.note_request(saved.cause, saved.step, next.job);
  const std::string how = next.job.empty() ? "requeued" : "resubmitted as job " + next.job;
  say(str(how, " (", slurm::to_text(saved.cause), "): the next attempt goes on from step ", saved.step));
  return next;
}

}  // namespace rekindle::app
