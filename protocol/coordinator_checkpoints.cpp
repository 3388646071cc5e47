// Checkpoints that are being written. A checkpoint belongs to its step, its generation and its writers, and
// may finish after the generation. It is abandoned only if a writer failed, or was lost before its report.
#include <algorithm>

#include "base/planted.hpp"
#include "base/text.hpp"
#include "protocol/coordinator.hpp"

namespace rekindle::protocol {

// The entry of an open checkpoint. nullptr if the generation is unknown (the sweep of the next term removes
// its files), or if the step is already committed.
OpenCheckpoint* Coordinator::checkpoint_of(const GenerationId& generation, std::uint64_t step) {
  const CheckpointKey key{step, generation};
  if (OpenCheckpoint* const found = ledger_.open.find(key)) return found;
  const std::vector<std::string>* writers = history_.past.members_of(generation);
  if (writers == nullptr || config_.job.steps < step || ledger_.committed.has_step(step)) return nullptr;
  OpenCheckpoint& checkpoint = ledger_.open.all[key];
  checkpoint.writers = *writers;
  ledger_.open.began = times_.now;
  return &checkpoint;
}

void Coordinator::shard_begun(const ShardBegun& begun) {
  auto* const found = membership_.find(begun.trainer);
  if (found == nullptr) return;
  found->writing = {begun.step, begun.generation};
  found->writing_since = found->block_written = times_.now;
  OpenCheckpoint* checkpoint = checkpoint_of(begun.generation, begun.step);
  if (checkpoint == nullptr) return;
  checkpoint->pauses |= begun.parks;
  ledger_.open.lost = false;
}

// Exactly one of `written` and `why` is set.
void Coordinator::shard_reported(const GenerationId& generation, std::uint64_t step,
                                 const std::string& trainer, const ShardWritten* written,
                                 const std::string& why) {
  const CheckpointKey key{step, generation};
  if (auto* const found = membership_.find(trainer); found != nullptr) {
    if (found->writing == key) found->writing.reset();
    found->wrote = key;
  }
  OpenCheckpoint* const entry = checkpoint_of(generation, step);
  if (entry == nullptr) return;
  OpenCheckpoint& checkpoint = *entry;
  if (written != nullptr) {
    if (!checkpoint.is_writer(written->rank, trainer)) return;
    checkpoint.written[written->rank] = *written;
    ledger_.open.write_time =
        std::max(ledger_.open.write_time, Time(static_cast<std::int64_t>(written->write_ms)));
  } else if (std::ranges::find(checkpoint.writers, trainer) != checkpoint.writers.end()) {
    checkpoint.failed[trainer] = why;
  }
}

void Coordinator::replay(const TrainerState& state) {
  if (state.writing) shard_begun(*state.writing);
  // Suspect states come first: no checkpoint of a changed state may be committed.
  for (const ShardFailed& shard : state.failed) {
    if (shard.changed) state_changed(shard);
    shard_reported(shard.generation, shard.step, shard.trainer, nullptr, shard.why);
  }
  for (const ShardWritten& shard : state.written)
    shard_reported(shard.generation, shard.step, shard.trainer, &shard, "");
}

// Whether no trainer writes into the checkpoint any more. Only then it may be committed or removed. A writer
// that has not reported ShardBegun will not begin any more if it has paused, is in another generation, or has
// begun a later checkpoint.
bool Coordinator::settled(const CheckpointKey& key, const OpenCheckpoint& checkpoint) const {
  const bool current = key.second == generation_.id;
  return !checkpoint.unsettled.any(checkpoint.writers.size(), [&](std::size_t rank) {
    const std::string& writer = checkpoint.writers[rank];
    if (checkpoint.written.contains(static_cast<int>(rank)) || checkpoint.failed.contains(writer))
      return false;
    auto* const found = membership_.find(writer);
    if (found != nullptr) {
      const KnownTrainer& trainer = *found;
      const auto later = [&key](const auto& other) {
        return other && other->second == key.second && other->first > key.first;
      };
      const bool past = later(trainer.writing) || later(trainer.wrote);
      return trainer.writing == key || (current && trainer.moving() && !past);
    }
    return phase_.adopting() && !generation_.gone.contains(writer);
  });
}

void Coordinator::review_checkpoints() {
  std::vector<CheckpointKey> keys;
  for (const auto& [key, checkpoint] : ledger_.open.all) keys.push_back(key);
  for (const CheckpointKey& key : keys) settle(key);
}

void Coordinator::abandon(CheckpointKey key) {  // a copy, because `key` may be part of the erased entry
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
  if (ledger_.committed.has_step(step)) {  // another generation has committed this step meanwhile
    return abandon(key);
  }
  // A trainer had already seen that the state was wrong, before all trainers were stopped.
  if (ledger_.suspect.forbids(key)) {
    return abandon(key);
  }
  // Replicas that differ break promise 1. Neither a checkpoint nor the loss of a shard may hide that.
  if (!checkpoint.equal()) {
    abandon(key);
    if (ledger_.suspect.covers(key.second)) return;  // already reported
    states_differ({});
    return phase_.break_off();
  }
  if (!checkpoint.complete() && !hasty) {
    const bool failed = !checkpoint.failed.empty();
    const std::string why = failed ? checkpoint.failed.begin()->second : "a trainer was lost while it wrote";
    if (failed) ledger_.failed.failed(step, why);
    ledger_.open.lost = !failed;
    emit(Warn{str(
        "the checkpoint of step ", step, " could not be written: ", why,
        step < config_.job.steps && !stop_ ? "; training goes on and the next checkpoint tries again" : "")});
    return abandon(key);
  }
  const ShardWritten& first = checkpoint.written.begin()->second;
  Commit commit{generation, step, first.digest, fingerprint_.text, checkpoint.written.begin()->second.tensors,
                {},         {}};
  for (const auto& [rank, shard] : checkpoint.written) commit.shards.push_back(shard.shard);
  // A commit checks only file sizes. Until a newer checkpoint has been read completely, the one from which
  // the run began is the only one with all bytes verified. A checkpoint that is being read must also stay.
  for (const std::string& name : {ledger_.restore.verified(), ledger_.restore.checkpoint()}) {
    if (!name.empty()) commit.pinned.push_back(name);
  }
  checkpoint.committing = true;
  emit(std::move(commit));
}

// Must be handled before the failure itself. A bit flipped after the update would enter the next update,
// whose result is hashed again; with one trainer no later check could detect the error.
void Coordinator::state_changed(const ShardFailed& failed) {
  const std::uint64_t good = failed.step - std::min<std::uint64_t>(failed.step, 1);
  // The generation is over already.
  if (ledger_.suspect.covers(failed.generation)) return ledger_.suspect.narrow(failed.generation, good);
  ledger_.suspect.raise(generation_.id, good);
  roll_back({failed.trainer}, str("a trainer's state of step ", failed.step, " has changed in its memory"));
  phase_.break_off();
}

// Storage that never answers must not block all later checkpoints. But if nobody else has the state, it is
// lost with its writers, and new trainers would read the same storage: such an outage is waited for. A writer
// on slow storage has the same time if its blocks are written.
void Coordinator::judge_writers() {
  constexpr int kOutage = 6;  // times hang_after
  const Time most = kOutage * config_.hang_after;
  Time limit = config_.hang_after;
  std::vector<std::string> stuck = membership_.stuck_writers(times_.now, limit, most);
  if (stuck.empty()) ledger_.open.outage_told = false;
  if (!stuck.empty() && !membership_.state_is_safe_from_storage() && !planted(Bug::kWritersDieInAnOutage)) {
    std::vector<std::string> over = membership_.stuck_writers(times_.now, most, most);
    if (over.size() < stuck.size() && !std::exchange(ledger_.open.outage_told, true))
      emit(Warn{
          str("no shard could be written for ", limit.count() / 1000,
              " s: does the storage answer? No other trainer has the state, so that its writers are waited "
              "for, for ",
              most.count() / 1000, " s in all")});
    limit = most;
    stuck = std::move(over);
  }
  for (const std::string& name : stuck) {
    const auto* const writer = membership_.find(name);
    const bool too_long = writer != nullptr && times_.now - writer->writing_since > most;
    kill(name, KillCause::kWrites,
         str(too_long ? "it has been writing its shard for " : "no block of its shard was written for ",
             (too_long ? most : limit).count() / 1000, " s"));
  }
}

// If a trainer is lost while it writes, the checkpoint is lost as well. The next one begins at once, because
// losses may come faster than the checkpoint interval.
void Coordinator::save_again_if_lost() {
  if (!ledger_.open.lost || !phase_.running() || stop_ || stop_.ending || !ledger_.open.all.empty() ||
      ledger_.open.save_asked == generation_.id)
    return;
  ledger_.open.save_asked = generation_.id;
  for (const std::string& member : generation_.members) send(member, Save{generation_.id});
}

}  // namespace rekindle::protocol
