// Stops, joins and the end of the run.
#include <algorithm>
#include <utility>

#include "base/planted.hpp"
#include "base/text.hpp"
#include "protocol/coordinator.hpp"

namespace rekindle::protocol {

namespace {

EndCause cause_of_end(StopCause cause) {
  switch (cause) {
    case StopCause::kSamplesUnusable:
      return EndCause::kSamplesUnusable;
    case StopCause::kSamplesUnreadable:
      return EndCause::kSamplesUnreadable;
    case StopCause::kExchangeFails:
      return EndCause::kExchangeFails;
    default:
      return EndCause::kOther;
  }
}

}  // namespace

void Coordinator::stop_members() {
  for (const std::string& member : generation_.members) send(member, Stop{generation_.id});
}

Finish Coordinator::saved_finish(std::uint64_t step) const {
  const int exit_code = stop_.exit_code(75);
  const EndCause cause = cause_of_end(stop_.cause);
  const std::string why = cause == EndCause::kOther ? "" : ": " + stop_.asked->why;
  if (!committed_step()) return {exit_code, str("stopped before anything was saved", why), "", cause};
  return {exit_code, str("stopped at step ", step, " of ", config_.job.steps, ", the state is saved", why),
          "", cause};
}

// Ends the run when all members have reached the end or a stop, and their state is durable. True: the run has
// ended, or its checkpoint is being written.
bool Coordinator::try_end() {
  if (!phase_.running()) return false;
  std::optional<std::uint64_t> held;
  bool finished = true;
  for (const std::string& member : generation_.members) {
    auto* const found = membership_.find(member);
    if (found == nullptr || !found->paused || !found->paused->holds) return false;
    const Paused& paused = *found->paused;
    if (paused.reason != PauseReason::kAgreed && paused.reason != PauseReason::kFinished) return false;
    finished = finished && paused.reason == PauseReason::kFinished;
    held = paused.held_step;
  }
  if (!held || (!finished && !stop_)) return false;
  history_.step = *held;
  if (committed_step() == *held) {
    end(finished ? Finish{0, str("finished: ", counted(*held, "step")), ""} : saved_finish(*held));
    return true;
  }
  if (ledger_.open.all.contains({*held, generation_.id})) return true;
  // The storage of the data was away for so long that its writes may be late as well, and nobody waits.
  const bool away = stop_.cause == StopCause::kSamplesUnreadable && stop_.until == Time(0);
  const auto longest = static_cast<std::uint64_t>(FailedCheckpoints::kLongestPause.count());
  const auto failure = ledger_.failed.given_up(*held, away ? config_.job.data_wait_ms / longest : 0);
  if (!failure) {
    write_again_later(*held);
    return false;
  }
  end({70, str("the state of step ", *held, " could not be written: ", *failure), resume_hint(),
       EndCause::kNotWritten});
  return true;
}

// When the state of a stop with a limit must be written at the latest.
Time Coordinator::latest_write() const { return stop_.until - ledger_.open.write_time; }

// The next generation writes it again, after a pause, but within the time of a stop.
void Coordinator::write_again_later(std::uint64_t step) {
  Time pause = ledger_.failed.pause(step);
  if (stop_.until > Time(0)) pause = std::clamp(latest_write() - times_.now, Time(0), pause);
  times_.hold_until = times_.write_again_at = times_.now + pause;
  if (pause > Time(0)) emit(Info{str("the state is written again in ", pause.count() / 1000, " s")});
}

// Joining trainers are admitted at a step boundary: all members pause after the same step.
void Coordinator::pause_for_newcomers() {
  if (!phase_.running()) return;
  const bool room = generation_.members.size() < config_.job.micro_batches;
  const bool any = std::any_of(membership_.trainers.begin(), membership_.trainers.end(),
                               [](const auto& entry) { return entry.second.rank < 0; });
  if (!any || !room || stop_ || stop_.ending || generation_.pause_asked || everyone_paused()) return;
  if (!generation_.newcomers_since) generation_.newcomers_since = times_.now;
  // At least one step is made between two joins, so that frequent joins cannot stop the run. A checkpoint in
  // progress is never delayed.
  if (times_.now - *generation_.newcomers_since < config_.join_batch || history_.step == generation_.began)
    return;
  if (!ledger_.open.all.empty() && !planted(Bug::kJoinPauseDuringCheckpoint)) return;
  generation_.pause_asked = true;
  for (const std::string& member : generation_.members) send(member, PauseForJoin{generation_.id});
}

// Decides the result of the run. The members of a generation pause first.
void Coordinator::end(Finish finish) {
  if (!stop_.ending) stop_.ending = std::move(finish);
  phase_.break_off();
}

void Coordinator::quit_all() {
  phase_.enter(QuittingPhase{times_.now + config_.quit_deadline});
  for (const auto& [name, trainer] : membership_.trainers) emit(SendTrainer{trainer.worker, name, Quit{}});
}

void Coordinator::finish_if_quiet() {
  if (!membership_.trainers.empty()) return;
  phase_.enter(EndedPhase{});
  for (const auto& [name, worker] : membership_.workers) {
    emit(Dismiss{config_.term, name, stop_.ending->exit_code, stop_.ending->line});
  }
  emit(*stop_.ending);
}

// The run continues with the other coordinator: no trainer may stop because of this.
void Coordinator::hand_over() {
  phase_.enter(EndedPhase{});
  emit(Finish{70, str("another coordinator has taken over this run (term ", *stop_.replaced_by, ")"), ""});
}

std::string Coordinator::resume_hint() const {
  // Only the supervisor knows the command that starts the next attempt, or that Slurm starts it.
  if (const auto step = committed_step()) return str("the next attempt goes on from step ", *step);
  return "the next attempt starts from the beginning, nothing was saved yet";
}

}  // namespace rekindle::protocol
