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

}  // namespace rekindle::sim
