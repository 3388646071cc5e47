// Checkpoints that are being written. One belongs to its step, its generation and its writers, and outlives
// the generation: it is given up only if a writer failed, or was lost before it had reported.
#include <algorithm>

#include "base/text.hpp"
#include "protocol/coordinator.hpp"
#include "protocol/planted.hpp"

namespace rekindle::protocol {

// The entry of a checkpoint that somebody writes or has written, or nothing: of a generation that nobody
// remembers (the next term's sweep removes it), or told again, of one that is committed.
OpenCheckpoint* Coordinator::checkpoint_of(const GenerationId& generation, std::uint64_t step) {
  const CheckpointKey key{step, generation};
  if (OpenCheckpoint* const found = ledger_.open.find(key)) return found;
  const std::vector<std::string>* writers = past_.members_of(generation);
  if (writers == nullptr || config_.job.steps < step || ledger_.committed.has_step(step)) return nullptr;
  OpenCheckpoint& checkpoint = ledger_.open.all[key];
  checkpoint.writers = *writers;
  ledger_.open.began = now_;
  return &checkpoint;
}

void Coordinator::shard_begun(const ShardBegun& begun) {
  auto* const found = there_.find(begun.trainer);
  if (found == nullptr) return;
  found->writing = {begun.step, begun.generation};
  found->writing_since = now_;
  OpenCheckpoint* checkpoint = checkpoint_of(begun.generation, begun.step);
  if (checkpoint == nullptr) return;
  checkpoint->parks |= begun.parks;
  ledger_.open.lost = false;
  review_checkpoints();  // it will not write an earlier one any more
}

// `written`, or why it could not be written.
void Coordinator::shard_reported(const GenerationId& generation, std::uint64_t step,
                                 const std::string& trainer, const ShardWritten* written,
                                 const std::string& why) {
  const CheckpointKey key{step, generation};
  if (auto* const found = there_.find(trainer); found != nullptr) {
    if (found->writing == key) found->writing.reset();
    found->wrote = key;
  }
  OpenCheckpoint* const entry = checkpoint_of(generation, step);
  if (entry == nullptr) return;
  OpenCheckpoint& checkpoint = *entry;
  if (written != nullptr) {
    checkpoint.written[written->rank] = *written;
    ledger_.open.write_time =
        std::max(ledger_.open.write_time, Time(static_cast<std::int64_t>(written->write_ms)));
  } else {
    checkpoint.failed[trainer] = why;
  }
  review_checkpoints();
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
bool Coordinator::settled(const CheckpointKey& key, const OpenCheckpoint& checkpoint) const {
  const bool current = key.second == generation_.id;
  return !checkpoint.unsettled.any(checkpoint.writers.size(), [&](std::size_t rank) {
    const std::string& writer = checkpoint.writers[rank];
    if (checkpoint.written.contains(static_cast<int>(rank)) || checkpoint.failed.contains(writer))
      return false;
    auto* const found = there_.find(writer);
    if (found != nullptr) {
      const KnownTrainer& trainer = *found;
      const auto later = [&key](const auto& other) {
        return other && other->second == key.second && other->first > key.first;
      };
      const bool past = later(trainer.writing) || later(trainer.wrote);
      return trainer.writing == key || (current && trainer.moving() && !past);
    }
    return phase_ == Phase::kAdopting && !generation_.gone.contains(writer);
  });
}

void Coordinator::review_checkpoints() {
  std::vector<CheckpointKey> keys;
  for (const auto& [key, checkpoint] : ledger_.open.all) keys.push_back(key);
  for (const CheckpointKey& key : keys) settle(key);
}

void Coordinator::abandon(CheckpointKey key) {  // a copy: its own may go with the entry
  emit(Abandon{key.second, key.first});
  ledger_.open.all.erase(key);
}

void Coordinator::settle(const CheckpointKey& key) {
  const auto found = ledger_.open.all.find(key);
  if (found == ledger_.open.all.end() || found->second.committing) return;
  OpenCheckpoint& checkpoint = found->second;
  const bool hasty = planted(Bug::kCommitWithMissingShard) && !checkpoint.written.empty();
  if (!settled(key, checkpoint) && !hasty) return;
  const auto& [step, generation] = key;
  if (ledger_.committed.has_step(step)) {  // by another generation, meanwhile
    abandon(key);
    return after_checkpoint();
  }
  // Made of a state that somebody has seen to be spoilt, before all had heard of it.
  if (ledger_.doubt.forbids(key)) {
    abandon(key);
    return after_checkpoint();
  }
  // Replicas that differ break promise 1: no checkpoint may hide it, nor may the loss of one of its shards.
  if (!checkpoint.alike()) {
    abandon(key);
    if (ledger_.doubt.covers(key.second)) return after_checkpoint();  // it is known
    states_differ({});
    return stop_doubted();
  }
  if (!checkpoint.whole() && !hasty) {
    const bool failed = !checkpoint.failed.empty();
    const std::string why = failed ? checkpoint.failed.begin()->second : "a trainer was lost while it wrote";
    if (failed) ledger_.failed.failed(step, why);
    ledger_.open.lost = !failed;
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
  for (const std::string& name : {ledger_.restore.verified(), ledger_.restore.checkpoint()}) {
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
  if (ledger_.doubt.covers(failed.generation)) return ledger_.doubt.narrow(good);  // it is over already
  ledger_.doubt.raise(generation_.id, good);
  roll_back({failed.trainer}, str("a trainer's state of step ", failed.step, " has changed in its memory"));
  stop_doubted();
}

// Storage that never answers must not end all checkpoints for good.
void Coordinator::judge_writers() {
  const std::vector<std::string> stuck = there_.stuck_writers(now_, config_.hang_after);
  for (const std::string& name : stuck)
    kill(name, str("it has been writing its shard for ", config_.hang_after.count() / 1000, " s"));
}

// Whoever is lost while it writes takes the checkpoint with it: the others do not wait until the next one is
// due, for losses may come faster than that.
void Coordinator::save_again_if_lost() {
  if (!ledger_.open.lost || phase_ != Phase::kRunning || stop_ || ending_ || !ledger_.open.all.empty() ||
      ledger_.open.save_asked == generation_.id)
    return;
  ledger_.open.save_asked = generation_.id;
  for (const std::string& member : generation_.members) send(member, Save{generation_.id});
}

// A run that waits for a checkpoint to end has to look again.
void Coordinator::after_checkpoint() {
  if (phase_ == Phase::kRunning && !generation_.members.empty() && everyone_parked()) return regroup();
  if (phase_ == Phase::kRunning) cut_for_newcomers();
  if (phase_ == Phase::kGathering) form_if_possible();
}

}  // namespace rekindle::protocol
