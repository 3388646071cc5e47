// What coordinators do with the shared directory, whose other hosts' changes they see late.
#include <algorithm>

#include "base/text.hpp"
#include "checks.hpp"
#include "coordinator.hpp"
#include "trainer.hpp"
#include "world.hpp"

namespace rekindle::sim {

using namespace protocol;

// A term has one coordinator, and a live holder is replaced only after it was silent for the whole patience.
void Checks::claims(const CoordinatorProcess& coordinator) {
  const std::uint64_t term = coordinator.term();
  if (!in_charge_.emplace(term, &coordinator).second)
    return world_.violated(
        str(coordinator.name(), " takes term ", term, ", which ", in_charge_[term]->name(), " has claimed"));
  const TermHolder* last = world_.disk().term(term - 1);
  if (last == nullptr || last->end || !last->holder->alive()) return;
  // The claimant cannot see the first signs of life of a new holder, and asks twice a second.
  constexpr Ms kTolerance = 1000;
  const Ms now = world_.engine().now();
  const auto cut_off = world_.last_cut_off(last->holder->host());
  const Ms until = cut_off ? cut_off->until.value_or(now) : 0;
  const Ms silent =
      cut_off && until + kTolerance >= now ? until - std::max(last->claim.at, cut_off->since) : 0;
  if (silent + world_.plan().lag_ms + kTolerance < kClaimPatience)
    world_.violated(str(coordinator.name(), " claims term ", term, ", though ", last->holder->name(),
                        " lives and was silent for only ", silent, " ms"));
}

// A new attempt begins with the newest checkpoint, if the storage can show it.
void Checks::attempt_begins(const CoordinatorConfig& known) {
  const auto& noted = world_.disk().noted;
  if (known.restarted || !noted) return;
  const auto found = world_.disk().checkpoints().find(*noted);
  if (found == world_.disk().checkpoints().end() || !found->second.committed || found->second.set_aside)
    return;
  if (known.restorable.empty() || known.restorable.front().step < noted->step)
    world_.violated(str("an attempt begins without ", noted->name(), ", the newest checkpoint"));
}

// The file `newest` never goes back, unless the run itself went back and a later generation goes on from
// there.
void Checks::notes(const CoordinatorProcess& coordinator, const CheckpointId& id) {
  sees_its_term(coordinator, str("notes ", id.name()));
  const auto& noted = world_.disk().noted;
  if (!noted || id.step >= noted->step || id.generation > noted->generation) return;
  world_.violated(str(coordinator.name(), " of term ", coordinator.term(), " notes ", id.name(), " after ",
                      noted->name()));
}

void Checks::notes_change(const Coordinator& machine, Knowledge& known, const FromTrainer& message) {
  const auto* failed = std::get_if<ShardFailed>(&message);
  if (failed == nullptr || !failed->changed || !machine.trainers().contains(failed->trainer)) return;
  const auto [first, fresh] = known.changed.emplace(failed->generation, failed->step);
  if (!fresh) first->second = std::min(first->second, failed->step);
}

// A change of a state in memory that was noticed never comes back.
void Checks::orders(const Knowledge& known, const Commit& commit) {
  for (const auto& [told, step] : known.changed) {
    if (commit.generation <= told && commit.step >= step)
      world_.violated(str("step ", commit.step, " of ", to_text(commit.generation),
                          " is to be committed, though the state of step ", step, " in ", to_text(told),
                          " has changed in memory"));
  }
}

void Checks::commits(CoordinatorProcess& coordinator, const Commit& commit) {
  const CheckpointId id{commit.step, commit.generation};
  sees_its_term(coordinator, str("commits ", id.name()));
  const auto generation = generations_.find(commit.generation);
  if (generation == generations_.end())
    return world_.violated(str(id.name(), " is committed, but no generation wrote it"));
  const std::size_t ranks = generation->second.start.members.size();
  StoredCheckpoint& stored = world_.disk().checkpoints()[id];
  if (commit.shards.size() != ranks || stored.shards.size() != ranks)
    return world_.violated(str(id.name(), " is committed with ", commit.shards.size(), " shards, ",
                               stored.shards.size(), " on disk, of ", ranks));
  for (const auto& [rank, shard] : stored.shards) {
    if (!shard.durable) world_.violated(str(id.name(), " is committed before shard ", rank, " is durable"));
    if (shard.state != stored.shards.at(0).state)
      world_.violated(str(id.name(), " is committed though its writers' states differ"));
    if (shard.tainted)
      world_.bits_are_void(str(id.name(), " contains a flipped bit that no check could notice"));
    if (!shard.tainted && shard.state != world_.right().at(commit.step))
      world_.violated(str(id.name(), " is committed with a wrong state"));
  }
}

void Checks::verifies(const GenerationId& generation) {
  const std::string& restored = generations_[generation].start.restore;
  if (restored.empty()) return;
  verified_ = restored;
  verified_in_ = generation;
}

// A coordinator changes the directory only as long as it cannot see a higher term.
void Checks::sees_its_term(const CoordinatorProcess& coordinator, const std::string& what) {
  const TermHolder* newest = world_.disk().newest_term(coordinator.host());
  if (newest->term > coordinator.term())
    world_.violated(str("term ", coordinator.term(), " ", what, ", though term ", newest->term,
                        " can be seen on its host"));
}

void Checks::deletes(CoordinatorProcess& coordinator, const CheckpointId& id, bool abandoned) {
  sees_its_term(coordinator, str("deletes ", id.name()));
  const auto committed = world_.disk().committed();
  if (!committed.empty() && committed.front().first == id)
    world_.violated(str(id.name(), " is deleted, and it is the newest checkpoint"));
  // A coordinator that continued from an older generation has no information about it.
  const bool knows =
      coordinator.term() == verified_in_.term || known_[coordinator.term()].adopted >= verified_in_;
  if (id.name() == verified_ && knows)
    world_.violated(
        str(id.name(), " is deleted, and no newer one has been read since the run began with it"));
  if (abandoned && world_.disk().checkpoints()[id].committed)
    world_.violated(str(id.name(), " is abandoned, and it is committed"));
  for (const auto& [name, known] : coordinator.machine()->trainers()) {
    const TrainerProcess* trainer = world_.trainer(name);
    if (abandoned && trainer != nullptr && trainer->alive() && trainer->writes(id))
      world_.violated(str(id.name(), " is abandoned while ", name, " writes into it"));
  }
}

void Checks::sets_aside(const std::string& name, const StoredCheckpoint& stored) {
  if (!stored.damaged) world_.violated(str(name, " is set aside, but it is intact"));
}

// No outage of storage is as long as the time for which the last trainers with the state are waited for.
void Checks::writer_killed(CoordinatorProcess& coordinator, const TrainerProcess& writer) {
  const auto& known = coordinator.machine()->trainers();
  const bool others = std::ranges::any_of(known, [this](const auto& entry) {
    const TrainerProcess* other = world_.trainer(entry.first);
    // In the middle of an update, it is not valid.
    return other != nullptr && (other->replica().valid || other->phase() == TrainerPhase::kApplying);
  });
  if (!others && writer.replica().valid)
    world_.violated(str(writer.name(), " is killed in its write, and its state is lost"));
}

}  // namespace rekindle::sim
