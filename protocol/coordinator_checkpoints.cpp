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

// The entry of a checkpoint that somebody writes or has written, or nothing: of a generation that nobody
// remembers (the next term's sweep removes it), or told again, of one that is committed.
Coordinator::Checkpoint* Coordinator::checkpoint_of(const GenerationId& generation, std::uint64_t step) {
  const CheckpointKey key{step, generation};
  if (const auto found = checkpoints_.find(key); found != checkpoints_.end()) return &found->second;
  const std::vector<std::string>* writers = members_of(generation);
  if (writers == nullptr || config_.job.steps < step || is_committed(step)) return nullptr;
  Checkpoint& checkpoint = checkpoints_[key];
  checkpoint.writers = *writers;
  checkpoint_began_ = now_;
  return &checkpoint;
}

void Coordinator::shard_begun(const ShardBegun& begun) {
  const auto found = trainers_.find(begun.trainer);
  if (found == trainers_.end()) return;
  found->second.writing = {begun.step, begun.generation};
  found->second.writing_since = now_;
  Checkpoint* checkpoint = checkpoint_of(begun.generation, begun.step);
  if (checkpoint == nullptr) return;
  checkpoint->parks |= begun.parks;
  checkpoint_lost_ = false;
  review_checkpoints();  // it will not write an earlier one any more
}

// `written`, or why it could not be written.
void Coordinator::shard_reported(const GenerationId& generation, std::uint64_t step,
                                 const std::string& trainer, const ShardWritten* written,
                                 const std::string& why) {
  const CheckpointKey key{step, generation};
  if (const auto found = trainers_.find(trainer); found != trainers_.end()) {
    if (found->second.writing == key) found->second.writing.reset();
    found->second.wrote = key;
  }
  Checkpoint* const entry = checkpoint_of(generation, step);
  if (entry == nullptr) return;
  Checkpoint& checkpoint = *entry;
  if (written != nullptr) {
    checkpoint.written[written->rank] = *written;
    write_time_ = std::max(write_time_, Time(static_cast<std::int64_t>(written->write_ms)));
  } else {
    checkpoint.failed[trainer] = why;
  }
  review_checkpoints();
}

bool Coordinator::is_committed(std::uint64_t step) const {
  return std::any_of(config_.restorable.begin(), config_.restorable.end(),
                     [step](const Restorable& r) { return r.step == step; });
}

void Coordinator::replay(const TrainerState& state) {
  if (state.writing) shard_begun(*state.writing);
  // First: nothing that was made of a spoilt state is to be committed.
  for (const ShardFailed& shard : state.failed) {
    if (shard.changed) state_changed(shard);
    shard_reported(shard.generation, shard.step, shard.trainer, nullptr, shard.why);
  }
  for (const ShardWritten& shard : state.written)
    shard_reported(shard.generation, shard.step, shard.trainer, &shard, "");
}

// Whether nobody writes into it any more: only then it may be committed or removed. Whoever has parked, or is
// in another generation, or has begun a later one, and has not said that it began this one, will not begin
// any more.
bool Coordinator::settled(const CheckpointKey& key, const Checkpoint& checkpoint) const {
  const bool current = key.second == generation_;
  return !checkpoint.unsettled.any(checkpoint.writers.size(), [&](std::size_t rank) {
    const std::string& writer = checkpoint.writers[rank];
    if (checkpoint.written.contains(static_cast<int>(rank)) || checkpoint.failed.contains(writer))
      return false;
    const auto found = trainers_.find(writer);
    if (found != trainers_.end()) {
      const Trainer& trainer = found->second;
      const auto later = [&key](const auto& other) {
        return other && other->second == key.second && other->first > key.first;
      };
      const bool past = later(trainer.writing) || later(trainer.wrote);
      return trainer.writing == key || (current && trainer.moving() && !past);
    }
    return phase_ == Phase::kAdopting && !gone_.contains(writer);
  });
}

void Coordinator::review_checkpoints() {
  std::vector<CheckpointKey> keys;
  for (const auto& [key, checkpoint] : checkpoints_) keys.push_back(key);
  for (const CheckpointKey& key : keys) settle(key);
}

// Whether all who have written their shard say the same of the whole state.
bool Coordinator::alike(const Checkpoint& checkpoint) {
  return std::ranges::all_of(checkpoint.written, [&](const auto& entry) {
    return entry.second.digest == checkpoint.written.begin()->second.digest;
  });
}

void Coordinator::abandon(CheckpointKey key) {  // a copy: its own may go with the entry
  emit(Abandon{key.second, key.first});
  checkpoints_.erase(key);
}

void Coordinator::settle(const CheckpointKey& key) {
  const auto found = checkpoints_.find(key);
  if (found == checkpoints_.end() || found->second.committing) return;
  Checkpoint& checkpoint = found->second;
  const bool hasty = planted(Bug::kCommitWithMissingShard) && !checkpoint.written.empty();
  if (!settled(key, checkpoint) && !hasty) return;
  const auto& [step, generation] = key;
  if (is_committed(step)) {  // by another generation, meanwhile
    abandon(key);
    return after_checkpoint();
  }
  // Made of a state that somebody has seen to be spoilt, before all had heard of it.
  if (generation <= doubted_ && step > last_good_) {
    abandon(key);
    return after_checkpoint();
  }
  // Replicas that differ break promise 1: no checkpoint may hide it, nor may the loss of one of its shards.
  if (!alike(checkpoint)) {
    abandon(key);
    if (key.second <= doubted_) return after_checkpoint();  // it is known
    states_differ({});
    return stop_doubted();
  }
  const bool whole = checkpoint.written.size() == checkpoint.writers.size();
  if (!whole && !hasty) {
    const bool failed = !checkpoint.failed.empty();
    const std::string why = failed ? checkpoint.failed.begin()->second : "a trainer was lost while it wrote";
    if (failed) checkpoint_failed(step, why);
    checkpoint_lost_ = !failed;
    emit(Warn{str(
        "the checkpoint of step ", step, " could not be written: ", why,
        step < config_.job.steps && !stop_ ? "; training goes on and the next checkpoint tries again" : "")});
    abandon(key);
    return after_checkpoint();
  }
  const ShardWritten& first = checkpoint.written.begin()->second;
  Commit commit{generation, step, first.digest, fingerprint_, checkpoint.written.begin()->second.tensors,
                {},         {}};
  for (const auto& [rank, shard] : checkpoint.written) commit.shards.push_back(shard.shard);
  // A commit looks at sizes alone. Until a newer one has been read, what the run began with is the only one
  // of which every byte is known to be right; and what is being read must stay until it has been.
  for (const std::string& name : {verified_, restored_}) {
    if (!name.empty()) commit.spared.push_back(name);
  }
  checkpoint.committing = true;
  emit(std::move(commit));
}

// The generation that is over because of what its members hold.
void Coordinator::stop_doubted() {
  if (phase_ == Phase::kRunning) abort_members();
  if (phase_ == Phase::kParking && everyone_parked()) regroup();
}

// Told before anything is made of the failure. A bit flipped in memory after the update: the next update
// would make it part of a state that is hashed anew, and with one trainer nobody could tell any more.
void Coordinator::state_changed(const ShardFailed& failed) {
  const std::uint64_t good = failed.step - std::min<std::uint64_t>(failed.step, 1);
  if (failed.generation <= doubted_) {  // it is over already
    last_good_ = std::min(last_good_, good);
    return;
  }
  last_good_ = good;
  roll_back({failed.trainer}, str("a trainer's state of step ", failed.step, " has changed in its memory"));
  stop_doubted();
}

void Coordinator::checkpoint_failed(std::uint64_t step, const std::string& why) {
  auto& [times, last] = failed_[step];
  ++times;
  last = why;
}

// Storage that never answers must not end all checkpoints for good.
void Coordinator::judge_writers() {
  std::vector<std::string> stuck;
  for (const auto& [name, trainer] : trainers_) {
    if (trainer.writing && now_ - trainer.writing_since > config_.hang_after) stuck.push_back(name);
  }
  for (const std::string& name : stuck)
    kill(name, str("it has been writing its shard for ", config_.hang_after.count() / 1000, " s"));
}

// Whoever is lost while it writes takes the checkpoint with it: the others do not wait until the next one is
// due, for losses may come faster than that.
void Coordinator::save_again_if_lost() {
  if (!checkpoint_lost_ || phase_ != Phase::kRunning || stop_ || ending_ || !checkpoints_.empty() ||
      save_asked_ == generation_)
    return;
  save_asked_ = generation_;
  for (const std::string& member : members_) send(member, Save{generation_});
}

// A run that waits for a checkpoint to end has to look again.
void Coordinator::after_checkpoint() {
  if (phase_ == Phase::kRunning && !members_.empty() && everyone_parked()) return regroup();
  if (phase_ == Phase::kRunning) cut_for_newcomers();
  if (phase_ == Phase::kGathering) form_if_possible();
}

}  // namespace rekindle::protocol
