// What coordinators decide, and how a run ends.
#include <algorithm>
#include <csignal>

#include "base/text.hpp"
#include "checks.hpp"
#include "coordinator.hpp"
#include "trainer.hpp"
#include "world.hpp"

namespace rekindle::sim {

using namespace protocol;

namespace {

// The generation of a report, if it is not the current generation of the coordinator.
std::optional<GenerationId> stale_generation(const Event& event, const GenerationId& now) {
  const auto* report = std::get_if<TrainerReported>(&event);
  if (report == nullptr) return std::nullopt;
  std::optional<GenerationId> of;
  if (const auto* done = std::get_if<StepDone>(&report->message)) of = done->generation;
  if (const auto* evaluated = std::get_if<Evaluated>(&report->message)) of = evaluated->generation;
  if (const auto* paused = std::get_if<Paused>(&report->message)) of = paused->generation;
  return of && *of != now ? of : std::nullopt;
}

}  // namespace

void Checks::on_coordinator_event(CoordinatorProcess& coordinator, const Event& event) {
  Knowledge& known = known_[coordinator.term()];
  const Coordinator& machine = *coordinator.machine();
  known.generation = machine.generation();
  known.step = machine.step();
  known.stale = stale_generation(event, machine.generation());
  known.gathered = machine.phase() == Phase::kGathering;
  known.moved.clear();
  for (const auto& [name, trainer] : machine.trainers()) {
    if (trainer.rank >= 0) known.moved.push_back(name);
  }
  if (const auto* registered = std::get_if<WorkerRegistered>(&event)) {
    for (const TrainerState& state : registered->registration.trainers) {
      known.registered.insert(state.ready.trainer);
      if (state.started)
        known.newest_registered = std::max(known.newest_registered, state.started->generation);
    }
  }
  if (const auto* done = std::get_if<CommitDone>(&event)) known.open.erase({done->step, done->generation});
  const auto* report = std::get_if<TrainerReported>(&event);
  if (report != nullptr) notes_progress(machine, report->message, known.moved);
  if (report != nullptr) notes_change(machine, known, report->message);
  const auto* shard = report == nullptr ? nullptr : std::get_if<ShardBegun>(&report->message);
  const bool saved = shard != nullptr && machine.committed_step() && *machine.committed_step() >= shard->step;
  if (shard != nullptr && !saved && shard->generation == machine.generation() &&
      machine.trainers().contains(shard->trainer))
    known.open.insert({shard->step, shard->generation});
}

// The progress of the generation and whether it crashed, as far as its coordinator was informed.
void Checks::notes_progress(const Coordinator& machine, const FromTrainer& message,
                            const std::vector<std::string>& members) {
  const auto found = generations_.find(machine.generation());
  if (found == generations_.end()) return;
  Generation& generation = found->second;
  generation.reported = std::max(generation.reported, machine.step());
  const auto* paused = std::get_if<Paused>(&message);
  if (paused != nullptr && paused->holds && paused->generation == machine.generation()) {
    generation.reported = std::max(generation.reported, paused->held_step);
    if (machine.trainers().contains(paused->trainer)) verifies(paused->generation);
  }
  const auto* exited = std::get_if<TrainerExited>(&message);
  const bool by_itself =
      exited != nullptr && (exited->by_signal ? exited->code != SIGKILL : exited->code != 0);
  if (by_itself && std::count(members.begin(), members.end(), exited->trainer) > 0) generation.crashed = true;
}

void Checks::coordinator_decides(CoordinatorProcess& coordinator, const std::vector<Effect>& effects) {
  Knowledge& known = known_[coordinator.term()];
  const Coordinator& machine = *coordinator.machine();
  ignores(coordinator, effects);
  const GenerationId& generation = machine.generation();
  if (generation != known.generation && generation.term != coordinator.term()) {
    known.adopted_at = world_.engine().now();
    known.adopted = generation;
  }
  for (const Effect& effect : effects) {
    if (const auto* abandon = std::get_if<Abandon>(&effect))
      known.open.erase({abandon->step, abandon->generation});
    if (const auto* commit = std::get_if<Commit>(&effect)) orders(known, *commit);
    if (const auto* order = std::get_if<KillTrainer>(&effect)) kills(coordinator, *order);
    const auto* warn = std::get_if<Warn>(&effect);
    if (warn != nullptr && warn->about == WarnAbout::kStatesDiffer) {
      flips_noticed_ = world_.bits_flipped();
      suspects_.clear();
      noticed_in_ = std::max(known.generation, known.adopted);
      for (const Member& member : generations_[noticed_in_].start.members) suspects_.insert(member.trainer);
    }
    const auto* send = std::get_if<SendTrainer>(&effect);
    if (send == nullptr) continue;
    if (const auto* start = std::get_if<Start>(&send->message)) {
      if (start->rank == 0) forms(coordinator, *start);
    }
    const auto* abort = std::get_if<Abort>(&send->message);
    if (abort != nullptr && abort->generation == known.adopted) adopts_patiently(coordinator, known.adopted);
    if (std::holds_alternative<Quit>(send->message)) quits(coordinator, send->trainer);
    if (const auto* pause = std::get_if<PauseForJoin>(&send->message)) {
      for (const auto& [step, generation] : known.open) {
        if (generation == pause->generation)
          world_.violated(
              str("a pause for joining trainers while the checkpoint of step ", step, " is being written"));
      }
    }
  }
}

// A state with a detected bit flip is never a source again, for any coordinator. If all trainers that
// detected it died before they reported it, no coordinator can know.
void Checks::trusts(const Start& start) {
  if (start.sources.empty()) return;
  for (std::size_t rank = 0; rank < start.members.size(); ++rank) {
    const std::string& name = start.members[rank].trainer;
    if (!suspects_.contains(name)) continue;
    const bool source = std::count(start.sources.begin(), start.sources.end(), static_cast<int>(rank)) > 0;
    if (!source) suspects_.erase(name);
    const TrainerProcess* trainer = world_.trainer(name);
    const bool was_told = trainer->generation() > noticed_in_;
    if (source && was_told && trainer->tainted() && world_.bits_flipped() == flips_noticed_)
      world_.violated(
          str(to_text(start.generation), " goes on from what ", name, " holds, which was found flipped"));
  }
}

void Checks::forms(CoordinatorProcess& coordinator, const Start& start) {
  trusts(start);
  if (generations_.contains(start.generation))
    world_.violated(str(to_text(start.generation), " is formed twice"));
  ++formed_;
  Generation& generation = generations_[start.generation];
  generation.start = start;
  generation.reported = start.step;
  generation.stop_known = coordinator.stop_known();
  if (world_.disk().newest_term()->term != coordinator.term()) return;  // no worker obeys this term any more
  const Knowledge& known = known_[coordinator.term()];
  if (start.generation.number == 1 && known.adopted.term > 0) adopts_patiently(coordinator, known.adopted);
  for (const auto& [name, entry] : coordinator.machine()->trainers()) {
    const TrainerProcess* trainer = world_.trainer(name);
    if (trainer == nullptr || !trainer->alive()) continue;
    if (trainer->inside())
      world_.violated(str(to_text(start.generation), " is formed while ", name, " is still in ",
                          to_text(trainer->generation())));
    const bool of_last = trainer->generation() == known.generation &&
                         std::count(known.moved.begin(), known.moved.end(), name) > 0;
    const bool rolled_back = start.sources.empty() && world_.bits_flipped() > 0;
    if (of_last && trainer->replica().valid && trainer->replica().step > start.step && !rolled_back)
      world_.violated(str(to_text(start.generation), " starts at step ", start.step, " though ", name,
                          " holds step ", trainer->replica().step));
  }
}

void Checks::kills(CoordinatorProcess& coordinator, const KillTrainer& kill) {
  const TrainerProcess* trainer = world_.trainer(kill.trainer);
  if (trainer == nullptr || !trainer->alive()) return;
  if (kill.cause == KillCause::kWrites) return writer_killed(coordinator, *trainer);
  if (kill.cause != KillCause::kHangs) return;
  const auto since = trainer->waiting_since();
  const Ms patience = world_.plan().timings.lost_after.count() + 1500;
  if (since && !trainer->hanging() && !trainer->suspended() && world_.engine().now() - *since > patience)
    world_.violated(str(kill.trainer, " is killed as hanging though it waits for another one"));
}

void Checks::quits(CoordinatorProcess& coordinator, const std::string& name) {
  Knowledge& known = known_[coordinator.term()];
  const TrainerProcess* trainer = world_.trainer(name);
  const bool of_last = trainer != nullptr && trainer->generation() == known.generation &&
                       std::count(known.moved.begin(), known.moved.end(), name) > 0;
  if (!of_last || !trainer->alive() || !trainer->replica().valid || world_.bits_flipped() > 0) return;
  known.newest_held = std::max(known.newest_held, trainer->replica().step);
}

// A generation of an older term is not touched until the state of each member is certain.
void Checks::adopts_patiently(CoordinatorProcess& coordinator, const GenerationId& adopted) {
  const Knowledge& known = known_[coordinator.term()];
  // The older coordinator has replaced that generation already, so its members count no longer.
  if (known.newest_registered > adopted) return;
  if (world_.engine().now() - known.adopted_at >= world_.plan().timings.lost_after.count()) return;
  for (const Member& member : generations_[adopted].start.members) {
    const TrainerProcess* trainer = world_.trainer(member.trainer);
    if (trainer->alive() && trainer->inside() && trainer->generation() == adopted &&
        !known.registered.contains(member.trainer))
      world_.violated(str("term ", coordinator.term(), " does not wait for ", member.trainer,
                          " when it adopts ", to_text(adopted)));
  }
}

void Checks::records(const StepDone& done) {
  if (done.step > highest_done_)
    world_.violated(str("step ", done.step, " is recorded, but no trainer has done it yet"));
  verifies(done.generation);
  // A report can be lost with its worker. Only after a single fault it is certain that another trainer
  // reports the step.
  const std::uint64_t recorded = world_.disk().recorded_step;
  if (done.step > recorded + 1 && world_.faults() == 1 &&
      !generations_[done.generation].start.sources.empty()) {
    for (std::uint64_t step = recorded + 1; step < done.step; ++step) unrecorded_.insert(step);
  }
  unrecorded_.erase(done.step);
}

// A report about a generation that is over changes nothing.
void Checks::ignores(CoordinatorProcess& coordinator, const std::vector<Effect>& effects) {
  const Knowledge& known = known_[coordinator.term()];
  if (!known.stale) return;
  if (known.gathered && coordinator.machine()->phase() == Phase::kRunning)
    return;  // the deadline was reached, whatever the report contained
  if (!effects.empty() || coordinator.machine()->step() != known.step)
    world_.violated(str(coordinator.name(), " acts on a report about ", to_text(*known.stale), " in ",
                        to_text(known.generation)));
}

// ---- the end ----

// Generations in a row that crashed without progress beyond the one before. A coordinator may not know the
// progress of generations of older terms.
int Checks::crashes_in_a_row(std::uint64_t term, bool knows_older) const {
  int crashes = 0;
  std::optional<std::uint64_t> stuck_at;
  for (const auto& [id, generation] : generations_) {
    if (!generation.crashed) continue;
    const std::uint64_t reported =
        knows_older || id.term == term ? generation.reported : generation.start.step;
    const bool got_on = !stuck_at || reported > *stuck_at;
    if (got_on) stuck_at = reported;
    crashes = !got_on ? crashes + 1 : generation.start.step == reported ? 1 : 0;
  }
  return crashes;
}

// Whether something was injected for which a run may give up with this cause.
bool Checks::may_give_up(CoordinatorProcess& coordinator, EndCause cause) const {
  const auto& nccl_fails = world_.plan().nccl_fails;
  switch (cause) {
    case EndCause::kCrashes:
      return std::max(crashes_in_a_row(coordinator.term(), true),
                      crashes_in_a_row(coordinator.term(), false)) >= 3;
    case EndCause::kExchangeFails:
      return nccl_fails && world_.plan().job.exchange == "nccl" && world_.engine().now() >= nccl_fails->from;
    case EndCause::kNotWritten:
      return world_.was_full() || world_.was_away() > 0;
    case EndCause::kNotRestored:
      return world_.was_away() > 30000;  // the restore is tried for that long
    case EndCause::kNotStarted:
      return world_.crashes_injected() >= 3 && formed_ == 0;
    case EndCause::kNobodyCame:
      return world_.workers().empty();  // the workers died while their supervisor was suspended
    case EndCause::kReported:
      return formed_ == 0;  // no memory is left; most often all trainers have the same cause
    case EndCause::kNotFinite:
      return world_.not_finite(world_.plan().poison_step);
    case EndCause::kOther:
    case EndCause::kTooFewTrainers:
    case EndCause::kSamplesUnusable:
    case EndCause::kSamplesUnreadable:
    case EndCause::kHangs:
      return false;
  }
  return false;
}

void Checks::finishes(CoordinatorProcess& coordinator, const Finish& finish) {
  // This coordinator has been replaced; its messages do not count.
  if (world_.disk().newest_term()->term > coordinator.term()) return;
  if (finish.exit_code == 70) {
    if (!may_give_up(coordinator, finish.cause)) world_.violated(str("the run gives up: ", finish.line));
    return;
  }
  const Plan& plan = world_.plan();
  const bool unusable = finish.exit_code == 78 && plan.poison == Poison::kUnusable &&
                        finish.cause == EndCause::kSamplesUnusable;
  if (finish.exit_code == 78 && !unusable) return world_.violated(str("the run is refused: ", finish.line));
  if (unusable && !plan.unusable_on.empty() && world_.faults() == 0 && plan.job.min_trainers <= 1)
    return world_.violated(str("the samples of one host end the run: ", finish.line));
  if (!unrecorded_.empty() && world_.faults() == 1)
    return world_.violated(str("step ", *unrecorded_.begin(), " is not on record"));
  const Knowledge& known = known_[coordinator.term()];
  const auto committed = world_.disk().committed();
  const std::uint64_t saved = committed.empty() ? 0 : committed.front().first.step;
  if (finish.exit_code == 0 && saved != world_.plan().job.steps)
    return world_.violated(str("the run finishes, but its newest checkpoint is of step ", saved));
  if (known.newest_held > saved)
    return world_.violated(
        str("the run ends at step ", saved, " though step ", known.newest_held, " is held"));
  if (finish.exit_code != 0 && !unusable) world_.checks_stop(finish);
}

}  // namespace rekindle::sim
