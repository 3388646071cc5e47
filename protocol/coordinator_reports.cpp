// What trainers say, and what the coordinator makes of it.
#include <algorithm>
#include <csignal>
#include <sstream>

#include "base/text.hpp"
#include "protocol/coordinator.hpp"
#include "protocol/planted.hpp"

namespace rekindle::protocol {

void Coordinator::heard(const std::string& worker, const TrainerReady& message) {
  if (!fits(worker, message)) return;
  KnownTrainer trainer;
  trainer.worker = worker;
  trainer.ready = message;
  trainer.heard = trainer.progressed = now_;
  there_.trainers[message.trainer] = std::move(trainer);
  if (phase_ == Phase::kQuitting) return send(message.trainer, Quit{});
  judge_early_crashes();
  if (phase_ == Phase::kGathering) form_if_possible();
}

void Coordinator::heard(const std::string& worker, const StepDone& message) {
  // Old steps that a worker tells after it was cut off stand before its trainers' beats, and may take long.
  for (auto& [name, trainer] : there_.trainers) {
    if (trainer.worker == worker) trainer.heard = now_;
  }
  if (!current(message.generation)) return;
  step_ = std::max(step_, message.step);
  went_on();
  ledger_.doubt.step_made(message.generation);
  ledger_.restore.forget_tries();
  if (message.step > generation_.began + 1) faults_.links.clear();
  stop_.step_made(Time(static_cast<std::int64_t>(message.step_ms)), now_);
  if (!log_.take(message.step)) return;
  emit(RecordStep{message});
  if (phase_ == Phase::kRunning) cut_for_newcomers();
  if (now_ - shown_ < Time(200) && message.step != config_.job.steps) return;
  shown_ = now_;
  Progress progress{message.step,    config_.job.steps,         message.epoch,
                    message.loss,    message.images_per_second, 0,
                    message.trainers};
  if (message.images_per_second > 0) {
    progress.seconds_left = static_cast<double>((config_.job.steps - message.step) * config_.job.batch_size) /
                            message.images_per_second;
  }
  emit(ShowProgress{progress});
}

// Rank 0 may have died, or its worker, before its reports arrived; the others have made the same steps.
void Coordinator::heard(const std::string&, const StepsDone& message) {
  if (!current(message.generation)) return;
  for (const StepDone& done : message.steps) {
    if (log_.take_late(done.step, generation_.began)) emit(RecordStep{done});
  }
}

void Coordinator::heard(const std::string&, const Evaluated& message) {
  if (!current(message.generation) || !log_.take_evaluation(message.step)) return;
  emit(RecordEvaluation{message});
  std::ostringstream line;
  line.precision(4);
  line << std::fixed << "after epoch " << message.epoch + 1 << " (step " << message.step << "): test loss "
       << message.loss << ", test accuracy " << 100 * message.accuracy << " % of " << message.count
       << " images";
  emit(Tell{line.str()});
}

void Coordinator::heard(const std::string&, const ShardBegun& message) { shard_begun(message); }

void Coordinator::heard(const std::string&, const ShardWritten& message) {
  shard_reported(message.generation, message.step, message.trainer, &message, "");
}

void Coordinator::heard(const std::string&, const ShardFailed& message) {
  if (message.changed) state_changed(message);
  shard_reported(message.generation, message.step, message.trainer, nullptr, message.why);
}

void Coordinator::heard(const std::string&, const Parked& message) {
  auto* const found = there_.find(message.trainer);
  if (found == nullptr) return;
  const bool stale = message.generation != generation_.id || found->rank < 0;
  if (stale && !planted(Bug::kNoGenerationCheck)) return;
  const bool altered = message.reason == ParkReason::kDataAltered;
  const bool first_evidence =
      phase_ == Phase::kRunning && (altered || message.reason == ParkReason::kExchangeFailed);
  const bool known = found->parked.has_value();
  if (altered && !known) warn_of_altered_data(message);
  found->parked = message;
  found->progressed = now_;
  if (message.holds) step_ = std::max(step_, message.held_step);
  review_checkpoints();
  if (message.generation != generation_.id) return;  // all is written, and the next one has begun
  if (phase_ == Phase::kAdopting) return go_on_if_adopted();
  if (phase_ != Phase::kRunning && phase_ != Phase::kParking) return;
  // As all of them agree about a cut, whoever parks for another reason ends the generation.
  const bool agreed = message.reason == ParkReason::kCut || message.reason == ParkReason::kFinished;
  if (phase_ == Phase::kRunning && !agreed) abort_members();
  // Most often the peer has died, and its worker is about to say so: a death is not the link's fault.
  if (first_evidence && !known && message.peer >= 0) generation_.suspect_link = {found->rank, message.peer};
  if (everyone_parked()) regroup();
}

void Coordinator::warn_of_altered_data(const Parked& message) {
  const auto named = [this](const KnownTrainer& trainer) {
    return str("trainer ", trainer.ready.trainer, " on ", trainer.ready.host);
  };
  const KnownTrainer* const peer = member(message.peer);
  emit(
      Warn{str("data from ", peer == nullptr ? str("rank ", message.peer) : named(*peer),
               " were changed on the way to ", named(there_.trainers.at(message.trainer)),
               ": an authentication tag is wrong. The data were not used. Either the network between the two "
               "damages data, or somebody tampers with it")});
}

void Coordinator::heard(const std::string&, const TrainerBeat& message) { there_.beat(message, now_); }

void Coordinator::heard(const std::string& worker, const TrainerFailed& message) {
  if (ends_before_it_begins(worker, message)) return;
  emit(Warn{str("trainer ", message.trainer, ": ", message.what,
                message.hint.empty() ? "" : str(": ", message.hint))});
}

void Coordinator::heard(const std::string& worker, const TrainerExited& message) {
  const std::string how = message.by_signal ? str("it was killed by signal ", message.code)
                                            : str("it ended with exit code ", message.code);
  const bool by_itself = message.by_signal ? message.code != SIGKILL : message.code != 0;
  if (message.by_signal && message.code == SIGKILL && !ending_) killed();
  const std::string who = str("trainer ", message.trainer, " of ", worker, ": ", how);
  if (by_itself && !ending_ && any_formed_) crashed(worker, message.trainer, who);
  if (by_itself && !ending_ && !any_formed_)
    crashed_early(worker, who, !message.by_signal && (message.code == 64 || message.code == 78));
  generation_.gone.insert(message.trainer);
  lose({message.trainer}, how);
  judge_early_crashes();
  if (phase_ == Phase::kAdopting) go_on_if_adopted();
}

}  // namespace rekindle::protocol
