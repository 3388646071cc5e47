// Checkpoints that are being written. One belongs to its step, its generation and its writers, and outlives
// the generation: it is given up only if a writer failed, or was lost before it had reported.
#include <algorithm>

#include "base/text.hpp"
#include "protocol/coordinator.hpp"
#include "protocol/planted.hpp"

namespace rekindle::protocol {

const std::vector<std::string>* Coordinator::members_of(const GenerationId& generation) const {
  for (const auto& [id, members] : past_members_) {
    if (id == generation) return &members;
  }
  return nullptr;
}

// `written`, or why it could not be written.
void Coordinator::shard_reported(const GenerationId& generation, std::uint64_t step,
                                 const std::string& trainer, const ShardWritten* written,
                                 const std::string& why) {
  const std::vector<std::string>* writers = members_of(generation);
  if (writers == nullptr) return;  // of a generation that nobody remembers: the next term's sweep removes it
  const CheckpointKey key{step, generation};
  // Reported again, to a coordinator that found it committed.
  if (config_.job.steps < step || (is_committed(step) && !checkpoints_.contains(key))) return;
  Checkpoint& checkpoint = checkpoints_[key];
  if (checkpoint.writers.empty()) checkpoint.writers = *writers;
  if (written != nullptr) {
    checkpoint.written[written->rank] = *written;
    write_time_ = std::max(write_time_, Time(static_cast<std::int64_t>(written->write_ms)));
  } else {
    checkpoint.failed[trainer] = why;
  }
  settle(key);
}

bool Coordinator::is_committed(std::uint64_t step) const {
  return std::any_of(config_.restorable.begin(), config_.restorable.end(),
                     [step](const Restorable& r) { return r.step == step; });
}

void Coordinator::replay(const TrainerState& state) {
  for (const ShardWritten& shard : state.written)
    shard_reported(shard.generation, shard.step, shard.trainer, &shard, "");
  for (const ShardFailed& shard : state.failed)
    shard_reported(shard.generation, shard.step, shard.trainer, nullptr, shard.why);
}

// Whether nobody writes into it any more: only then it may be committed or removed. Members report their
// shards before they park, so whoever has parked, or is in another generation, will not write any more.
bool Coordinator::settled(const CheckpointKey& key, const Checkpoint& checkpoint) const {
  if (key.second != generation_) return true;
  return !checkpoint.unsettled.any(checkpoint.writers.size(), [&](std::size_t rank) {
    const std::string& writer = checkpoint.writers[rank];
    if (checkpoint.written.contains(static_cast<int>(rank)) || checkpoint.failed.contains(writer))
      return false;
    const auto found = trainers_.find(writer);
    if (found != trainers_.end()) return found->second.moving();
    return phase_ == Phase::kAdopting && !gone_.contains(writer);
  });
}

void Coordinator::review_checkpoints() {
  std::vector<CheckpointKey> keys;
  for (const auto& [key, checkpoint] : checkpoints_) keys.push_back(key);
  for (const CheckpointKey& key : keys) settle(key);
}

void Coordinator::settle(const CheckpointKey& key) {
  const auto found = checkpoints_.find(key);
  if (found == checkpoints_.end() || found->second.committing) return;
  Checkpoint& checkpoint = found->second;
  const bool hasty = planted(Bug::kCommitWithMissingShard) && !checkpoint.written.empty();
  if (!settled(key, checkpoint) && !hasty) return;
  const auto& [step, generation] = key;
  if (is_committed(step)) {  // by another generation, meanwhile
    emit(Abandon{generation, step});
    checkpoints_.erase(found);
    return after_checkpoint();
  }
  const bool whole = checkpoint.written.size() == checkpoint.writers.size();
  if (!whole && !hasty) {
    const bool failed = !checkpoint.failed.empty();
    const std::string why = failed ? checkpoint.failed.begin()->second : "a trainer was lost while it wrote";
    if (failed) checkpoint_failed(step, why);
    emit(Warn{str(
        "the checkpoint of step ", step, " could not be written: ", why,
        step < config_.job.steps && !stop_ ? "; training goes on and the next checkpoint tries again" : "")});
    emit(Abandon{generation, step});
    checkpoints_.erase(found);
    return after_checkpoint();
  }
  const ShardWritten& first = checkpoint.written.begin()->second;
  Commit commit{generation, step, first.digest, fingerprint_, checkpoint.written.begin()->second.tensors, {}};
  for (const auto& [rank, shard] : checkpoint.written) {
    if (shard.digest != first.digest) {
      // Replicas that differ break promise 1: no checkpoint may hide it.
      emit(Abandon{generation, step});
      checkpoints_.erase(found);
      roll_back({});
      if (phase_ == Phase::kRunning) abort_members();
      if (phase_ == Phase::kParking && everyone_parked()) regroup();
      return;
    }
    commit.shards.push_back(shard.shard);
  }
  checkpoint.committing = true;
  emit(std::move(commit));
}

void Coordinator::checkpoint_failed(std::uint64_t step, const std::string& why) {
  auto& [times, last] = failed_[step];
  ++times;
  last = why;
}

// A run that waits for a checkpoint to end has to look again.
void Coordinator::after_checkpoint() {
  if (phase_ == Phase::kRunning && !members_.empty() && everyone_parked()) return regroup();
  if (phase_ == Phase::kGathering && stop_) form_if_possible();
}

}  // namespace rekindle::protocol
