#include "checks.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "coordinator.hpp"
#include "worker.hpp"
#include "world.hpp"

namespace rekindle::sim {

using namespace protocol;

// ---- trainers ----

void Checks::on_trainer_message(TrainerProcess& trainer, const ToTrainer& message, const GenerationId& in,
                                bool aborts) {
  const auto* abort = std::get_if<Abort>(&message);
  if (abort != nullptr && aborts && abort->generation < in)
    world_.violated(
        str(trainer.name(), " in ", to_text(in), " obeys an abort of ", to_text(abort->generation)));
}

void Checks::enters(TrainerProcess& trainer, const Start& start) {
  GenerationId& last = entered_[trainer.name()];
  if (start.generation <= last)
    world_.violated(str(trainer.name(), " enters ", to_text(start.generation), " after ", to_text(last)));
  last = start.generation;
  const auto found = generations_.find(start.generation);
  if (found == generations_.end())
    return world_.violated(
        str(trainer.name(), " enters ", to_text(start.generation), ", which no coordinator formed"));
  const Start& first = found->second.start;
  bool equal = start.members.size() == first.members.size() && start.step == first.step &&
               start.sources == first.sources && start.restore == first.restore && start.stop == first.stop &&
               start.evaluate == first.evaluate && start.saved == first.saved;
  for (std::size_t i = 0; equal && i < start.members.size(); ++i)
    equal = start.members[i].trainer == first.members[i].trainer;
  if (!equal)
    world_.violated(str("the members of ", to_text(start.generation), " received different Starts"));
  if (start.members[static_cast<std::size_t>(start.rank)].trainer != trainer.name())
    world_.violated(str(trainer.name(), " received the rank of another trainer"));
  std::string& fingerprint = found->second.fingerprint;
  if (fingerprint.empty()) fingerprint = trainer.worker().fingerprint();
  if (fingerprint != trainer.worker().fingerprint())
    world_.violated(str("the members of ", to_text(start.generation), " do not have one fingerprint"));
}

void Checks::holds(TrainerProcess& trainer) {
  const ReplicaState& replica = trainer.replica();
  if (!replica.valid) return;
  if (!trainer.tainted() && trainer.state() != world_.right().at(replica.step))
    world_.violated(str(trainer.name(), " holds a wrong state at step ", replica.step));
  if (replica.step > highest_done_) got_on_at_ = world_.engine().now();
  highest_done_ = std::max(highest_done_, replica.step);
  Generation& generation = generations_[trainer.generation()];
  if (generation.stop_known && replica.step > generation.start.step)
    world_.violated(str(trainer.name(), " goes on training in ", to_text(trainer.generation()),
                        ", which was formed to stop"));
}

// Either all members stop after the same step, or none does.
void Checks::computes(TrainerProcess& trainer, std::uint64_t step) {
  Generation& generation = generations_[trainer.generation()];
  generation.computed = std::max(generation.computed.value_or(0), step);
  if (generation.paused_after && step >= *generation.paused_after)
    world_.violated(str(trainer.name(), " goes on in ", to_text(trainer.generation()),
                        ", which paused after step ", *generation.paused_after));
}

void Checks::pauses(TrainerProcess& trainer, const Paused& report) {
  if (report.reason != PauseReason::kAgreed && report.reason != PauseReason::kFinished) return;
  const auto& computed = generations_[report.generation].computed;
  if (computed && *computed >= report.held_step)
    world_.violated(str(trainer.name(), " stops after step ", report.held_step, " of ",
                        to_text(report.generation), ", but another trainer continues"));
  auto& paused_after = generations_[report.generation].paused_after;
  if (paused_after && *paused_after != report.held_step)
    world_.violated(str("the pause of ", to_text(report.generation), " is after step ", *paused_after,
                        " and, for ", trainer.name(), ", after step ", report.held_step));
  paused_after = report.held_step;
}

// ---- workers ----

void Checks::worker_acts(WorkerProcess& worker, std::uint64_t newest_term, const WorkerEvent& event,
                         const WorkerEffect& effect) {
  std::uint64_t term = newest_term;
  if (const auto* order = std::get_if<OrderedForTrainer>(&event)) term = order->term;
  if (const auto* order = std::get_if<KillTrainer>(&event)) term = order->term;
  if (const auto* order = std::get_if<Dismiss>(&event)) term = order->term;
  if (const auto* order = std::get_if<RegisterAgain>(&event)) term = order->term;
  if (term >= newest_term || std::holds_alternative<Warn>(effect)) return;
  world_.violated(str(worker.name(), " obeys term ", term, " though it has seen term ", newest_term));
}

// ---- the shared directory ----

void Checks::commits(CoordinatorProcess& coordinator, const Commit& commit) {
  const CheckpointId id{commit.step, commit.generation};
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

void Checks::deletes(CoordinatorProcess& coordinator, const CheckpointId& id, bool abandoned) {
  if (world_.disk().newest_term()->term > coordinator.term())
    world_.violated(str("term ", coordinator.term(), " deletes ", id.name(), " after a newer one began"));
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

}  // namespace rekindle::sim
