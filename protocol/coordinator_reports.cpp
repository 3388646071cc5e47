// What trainers say, and what the coordinator makes of it.
#include <algorithm>
#include <sstream>

#include "base/text.hpp"
#include "protocol/coordinator.hpp"

namespace rekindle::protocol {

void Coordinator::heard(const std::string& worker, const TrainerReady& message) {
  trainers_[message.trainer] = Trainer{worker, message, -1, {}, {}, now_, 0};
  if (phase_ == Phase::kQuitting) return emit(SendTrainer{message.trainer, Quit{}});
  if (phase_ != Phase::kGathering) return;
  for (const auto& [name, trainer] : trainers_) {
    if (trainer.ready.fingerprint != message.fingerprint) {
      return give_up(78,
                     str("trainer ", message.trainer, " on ", message.host, " is not like ", name, " on ",
                         trainer.ready.host, ": ", message.fingerprint, " and ", trainer.ready.fingerprint),
                     "the same build, threads and kind of CPU are needed everywhere");
    }
  }
  if (static_cast<int>(trainers_.size()) >= config_.expected_trainers) form();
}

void Coordinator::heard(const std::string&, const StepDone& message) {
  if (!current(message.generation)) return;
  step_ = message.step;
  const auto trainers = static_cast<int>(members_.size());
  emit(RecordStep{message, trainers});
  if (now_ - shown_ < Time(200) && message.step != config_.job.steps) return;
  shown_ = now_;
  Progress progress{
      message.step, config_.job.steps, message.epoch, message.loss, message.images_per_second, 0, trainers};
  if (message.images_per_second > 0) {
    progress.seconds_left = static_cast<double>((config_.job.steps - message.step) * config_.job.batch_size) /
                            message.images_per_second;
  }
  emit(ShowProgress{progress});
}

void Coordinator::heard(const std::string&, const Evaluated& message) {
  if (!current(message.generation) || !config_.evaluated.insert(message.step).second) return;
  emit(RecordEvaluation{message});
  std::ostringstream line;
  line.precision(4);
  line << std::fixed << "after epoch " << message.epoch << " (step " << message.step << "): test loss "
       << message.loss << ", test accuracy " << 100 * message.accuracy << " % of " << message.count
       << " images";
  emit(Tell{line.str()});
}

void Coordinator::heard(const std::string&, const ShardWritten& message) {
  if (!current(message.generation)) return;
  pending_[message.step].written[message.rank] = message;
  try_commit(message.step);
}

void Coordinator::heard(const std::string&, const ShardFailed& message) {
  if (!current(message.generation)) return;
  Pending& pending = pending_[message.step];
  pending.failed.insert(message.trainer);
  pending.why = message.why;
  try_commit(message.step);
}

// Once every writer has reported: commit, or give the whole checkpoint up. Not earlier, so that nobody writes
// into a directory that is being removed.
void Coordinator::try_commit(std::uint64_t step) {
  const Pending& pending = pending_.at(step);
  if (pending.written.size() + pending.failed.size() < members_.size()) return;
  if (!pending.failed.empty()) {
    failed_[step] = pending.why;
    emit(Warn{str("the checkpoint of step ", step, " could not be written: ", pending.why,
                  "; training goes on and the next checkpoint tries again")});
    emit(Abandon{generation_, step});
    pending_.erase(step);
    return try_end();
  }
  const ShardWritten& first = pending.written.at(0);
  Commit commit{generation_,   step, first.digest, trainers_.at(members_[0]).ready.fingerprint,
                first.tensors, {}};
  for (const auto& [rank, shard] : pending.written) {
    if (shard.digest != first.digest) {
      // Replicas that differ break promise 1: no checkpoint may hide it.
      return give_up(
          70, str("the states of trainers ", first.trainer, " and ", shard.trainer, " differ at step ", step),
          str("suspect a hardware fault; ", resume_hint()));
    }
    commit.shards.push_back(shard.shard);
  }
  emit(std::move(commit));
}

void Coordinator::heard(const std::string&, const Parked& message) {
  const auto found = trainers_.find(message.trainer);
  if (found == trainers_.end() || message.generation != generation_) return;
  found->second.parked = message;
  if (phase_ == Phase::kRunning && message.reason == ParkReason::kExchangeFailed && !evidence_until_) {
    // Most often a peer died and its worker is about to say so; that is the better message.
    evidence_until_ = now_ + config_.lost_after;
    evidence_ = str("the exchange of trainer ", message.trainer, " failed: ", message.detail);
  }
  if (phase_ == Phase::kRunning && message.reason == ParkReason::kRestoreFailed) abort_members();
  if (everyone_parked()) all_parked();
}

void Coordinator::heard(const std::string&, const TrainerBeat& message) {
  const auto found = trainers_.find(message.trainer);
  if (found == trainers_.end()) return;
  found->second.heard = now_;
  found->second.beat = message;
  found->second.peak_pss_bytes = std::max(found->second.peak_pss_bytes, message.peak_pss_bytes);
}

void Coordinator::heard(const std::string&, const TrainerFailed& message) {
  give_up(message.exit_code, message.what, message.hint);
}

void Coordinator::heard(const std::string& worker, const TrainerExited& message) {
  trainers_.erase(message.trainer);
  if (ending_) return finish_if_quiet();
  const std::string how = message.by_signal ? str("was killed by signal ", message.code)
                                            : str("ended with exit code ", message.code);
  give_up(70, str("trainer ", message.trainer, " of ", worker, " ", how, " at step ", step_), resume_hint());
}

}  // namespace rekindle::protocol
