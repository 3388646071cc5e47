// The reports of trainers, and how the coordinator reacts.
#include <algorithm>
#include <bit>
#include <csignal>

#include "base/planted.hpp"
#include "base/text.hpp"
#include "protocol/coordinator.hpp"
#include "protocol/describe.hpp"

namespace rekindle::protocol {

void Coordinator::on_report(const std::string& worker, const TrainerReady& message) {
  if (!fits(worker, message)) return;
  KnownTrainer trainer;
  trainer.worker = worker;
  trainer.ready = message;
  trainer.last_seen = trainer.progressed = times_.now;
  membership_.trainers[message.trainer] = std::move(trainer);
  faults_.told.ready(worker);
  if (phase() == Phase::kQuitting) return send(message.trainer, Quit{});
  judge_early_crashes();
}

void Coordinator::on_report(const std::string& worker, const StepDone& message) {
  // Old steps that a worker reports after a broken connection come before the heartbeats of its trainers, and
  // may take long.
  for (auto& [name, trainer] : membership_.trainers) {
    if (trainer.worker == worker) trainer.last_seen = times_.now;
  }
  if (!current(message.generation)) return;
  history_.step = std::max(history_.step, message.step);
  went_on();
  ledger_.suspect.step_made(message.generation);
  ledger_.restore.forget_tries();
  if (message.step > generation_.began + 1) {
    faults_.links.clear();
    faults_.exchanges.went_on();
  }
  faults_.samples.step_made();
  stop_.step_made(Time(static_cast<std::int64_t>(message.step_ms)), times_.now);
  if (!log_.take(message.step)) return;
  emit(RecordStep{message});
  pause_for_newcomers();
  const std::uint64_t each = config_.job.log_interval;
  const bool has_own_line = each > 0 && message.step % each == 0;
  if (times_.now - times_.shown < Time(200) && message.step != config_.job.steps && !has_own_line) return;
  times_.shown = times_.now;
  Progress progress{message.step,    config_.job.steps,         message.epoch,
                    message.loss,    message.images_per_second, 0,
                    message.trainers};
  if (message.images_per_second > 0) {
    progress.seconds_left = static_cast<double>((config_.job.steps - message.step) * config_.job.batch_size) /
                            message.images_per_second;
  }
  emit(ShowProgress{progress});
}

// Rank 0 or its worker may have died before its reports arrived; the other ranks have made the same steps.
void Coordinator::on_report(const std::string&, const StepsDone& message) {
  if (!current(message.generation)) return;
  for (const StepDone& done : message.steps) {
    if (log_.take_late(done.step, generation_.began)) emit(RecordStep{done});
  }
}

void Coordinator::on_report(const std::string&, const Evaluated& message) {
  if (!current(message.generation) || !log_.take_evaluation(message.step)) return;
  emit(RecordEvaluation{message});
  const bool ends_epoch = config_.job.evaluate_every == 0 ||
                          epoch_of(config_.job, message.step) != message.epoch ||
                          message.step == config_.job.steps;
  std::string line =
      str(ends_epoch ? "after epoch " : "in epoch ", message.epoch + 1, " (step ", message.step, "): test ",
          message.loss ? metric_text("loss", *message.loss) : "loss not finite");
  for (const auto& [name, value] : message.metrics) line += ", " + metric_text(name, value);
  emit(Info{str(line, " (of ", message.count, ")")});
}

// Every trainer that meets the sample reports it. After 20 samples, the 32nd, 64th, ... is told.
void Coordinator::on_report(const std::string& worker, const SampleSkipped& message) {
  const std::size_t number = faults_.samples.skipped(message.why);
  constexpr std::size_t kToldEach = 20;
  if (number > 0 && (number <= kToldEach || std::has_single_bit(number)))
    emit(Warn{str(message.why, " (seen by ", worker, "); the next readable sample takes its place (", number,
                  " so far)")});
}

void Coordinator::on_report(const std::string&, const ShardBegun& message) { shard_begun(message); }

void Coordinator::on_report(const std::string&, const ShardWritten& message) {
  shard_reported(message.generation, message.step, message.trainer, &message, "");
}

void Coordinator::on_report(const std::string&, const ShardFailed& message) {
  if (message.changed) state_changed(message);
  shard_reported(message.generation, message.step, message.trainer, nullptr, message.why);
}

void Coordinator::on_report(const std::string&, const Paused& message) {
  auto* const found = membership_.find(message.trainer);
  if (found == nullptr) return;
  const bool stale = message.generation != generation_.id || found->rank < 0;
  if (stale && !planted(Bug::kNoGenerationCheck)) return;
  const bool altered = message.reason == PauseReason::kDataAltered;
  const bool first_evidence = phase_.running() && (altered || message.reason == PauseReason::kExchangeFailed);
  const bool known = found->paused.has_value();
  if (altered && !known) warn_of_altered_data(message);
  if (message.reason == PauseReason::kSamplesUnreadable && phase_.running())
    generation_.storage_away = all_wait_for_samples(*found);
  found->paused = message;
  found->progressed = times_.now;
  if (message.holds) history_.step = std::max(history_.step, message.held_step);
  if (!phase_.running() && !phase_.pausing()) return;
  // A member that pauses without an agreement of all members ends the generation.
  const bool agreed = message.reason == PauseReason::kAgreed || message.reason == PauseReason::kFinished;
  if (!agreed) phase_.break_off();
  // Most often the peer has died, and its worker will report that soon: a death is not a fault of the link.
  if (first_evidence && !known) generation_.suspect_link = {found->rank, message.peer};
}

// Whether there are other members than `reporter`, and all of them wait for samples as well. Most often one
// that does not waits for the reporter, and has its own samples.
bool Coordinator::all_wait_for_samples(const KnownTrainer& reporter) const {
  std::size_t others = 0;
  for (const std::string& name : generation_.members) {
    const KnownTrainer* const each = membership_.find(name);
    if (each == nullptr || each == &reporter) continue;
    if (each->beat.phase != TrainerPhase::kReading) return false;
    ++others;
  }
  return others > 0;
}

void Coordinator::warn_of_altered_data(const Paused& message) {
  const auto named = [](const KnownTrainer& trainer) {
    return str("trainer ", trainer.ready.trainer, " on ", trainer.ready.host);
  };
  const KnownTrainer* const peer = member(message.peer);
  emit(
      Warn{str("data from ", peer == nullptr ? str("rank ", message.peer) : named(*peer),
               " were changed on the way to ", named(membership_.trainers.at(message.trainer)),
               ": an authentication tag is wrong. The data were not used. Either the network between the two "
               "damages data, or somebody tampers with it")});
}

void Coordinator::on_report(const std::string&, const TrainerBeat& message) {
  const KnownTrainer* const trainer = membership_.find(message.trainer);
  const bool begins = trainer != nullptr && message.phase == TrainerPhase::kReading &&
                      trainer->beat.phase != TrainerPhase::kReading;
  membership_.beat(message, times_.now);
  if (!begins || !faults_.samples.may_tell(times_.now)) return;
  emit(Warn{str("trainer ", message.trainer, " on host ", trainer->ready.host,
                " cannot read its samples now and tries again; its log says why")});
}

void Coordinator::on_report(const std::string& worker, const TrainerFailed& message) {
  if (ends_before_it_begins(worker, message)) return;
  if (auto* const trainer = membership_.find(message.trainer)) trainer->failure = message.what;
  if (!faults_.told.is_new(worker, message.what)) return;
  emit(Warn{str("trainer ", message.trainer, ": ", message.what,
                message.hint.empty() ? "" : str(": ", message.hint))});
}

void Coordinator::on_report(const std::string& worker, const TrainerExited& message) {
  std::string how = message.by_signal ? str("it was killed by signal ", message.code)
                                      : str("it ended with exit code ", message.code);
  const auto* const trainer = membership_.find(message.trainer);
  if (trainer != nullptr && !trainer->failure.empty()) how += ": " + trainer->failure;
  const bool by_itself = message.by_signal ? message.code != SIGKILL : message.code != 0;
  if (message.by_signal && message.code == SIGKILL && !stop_.ending) killed(message.trainer);
  const std::string who = str("trainer ", message.trainer, " of ", worker, ": ", how);
  if (by_itself && !stop_.ending && history_.any_formed) crashed(faults_.step_crashes, message.trainer, who);
  if (by_itself && !stop_.ending && !history_.any_formed &&
      !faults_.start_tries.is_without_gpu(message.trainer))
    crashed_early(worker, who, !message.by_signal && (message.code == 64 || message.code == 78));
  generation_.gone.insert(message.trainer);
  lose({message.trainer}, how);
  judge_early_crashes();
}

}  // namespace rekindle::protocol
