#include "checks.hpp"

#include <algorithm>
#include <csignal>

#include "base/text.hpp"
#include "coordinator.hpp"
#include "worker.hpp"
#include "world.hpp"

namespace rekindle::sim {

using namespace protocol;

namespace {

// The generation that a trainer speaks of, if it is not the one that the coordinator is in.
std::optional<GenerationId> stale_generation(const Event& event, const GenerationId& now) {
  const auto* said = std::get_if<TrainerSaid>(&event);
  if (said == nullptr) return std::nullopt;
  std::optional<GenerationId> of;
  if (const auto* done = std::get_if<StepDone>(&said->message)) of = done->generation;
  if (const auto* evaluated = std::get_if<Evaluated>(&said->message)) of = evaluated->generation;
  if (const auto* parked = std::get_if<Parked>(&said->message)) of = parked->generation;
  return of && *of != now ? of : std::nullopt;
}

}  // namespace

// ---- trainers ----

void Checks::trainer_heard(TrainerProcess& trainer, const ToTrainer& message, const GenerationId& in,
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
        str(trainer.name(), " enters ", to_text(start.generation), ", which nobody formed"));
  const Start& first = found->second.start;
  bool alike = start.members.size() == first.members.size() && start.step == first.step &&
               start.sources == first.sources && start.restore == first.restore && start.stop == first.stop &&
               start.evaluate == first.evaluate && start.saved == first.saved;
  for (std::size_t i = 0; alike && i < start.members.size(); ++i)
    alike = start.members[i].trainer == first.members[i].trainer;
  if (!alike)
    world_.violated(str("the members of ", to_text(start.generation), " were told different things"));
  if (start.members[static_cast<std::size_t>(start.rank)].trainer != trainer.name())
    world_.violated(str(trainer.name(), " was told a rank that is not its own"));
  std::string& fingerprint = found->second.fingerprint;
  if (fingerprint.empty()) fingerprint = trainer.worker().fingerprint();
  if (fingerprint != trainer.worker().fingerprint())
    world_.violated(str("the members of ", to_text(start.generation), " do not have one fingerprint"));
}

void Checks::holds(TrainerProcess& trainer) {
  const Held& held = trainer.held();
  if (!held.whole) return;
  if (!trainer.tainted() && trainer.state() != world_.right().at(held.step))
    world_.violated(str(trainer.name(), " holds a wrong state at step ", held.step));
  if (held.step > highest_done_) got_on_at_ = world_.engine().now();
  highest_done_ = std::max(highest_done_, held.step);
  Generation& generation = generations_[trainer.generation()];
  if (generation.stop_known && held.step > generation.start.step)
    world_.violated(str(trainer.name(), " goes on training in ", to_text(trainer.generation()),
                        ", which was formed to stop"));
}

void Checks::agrees(TrainerProcess& trainer, std::uint32_t flags) {
  const std::uint64_t step = trainer.held().step;
  const auto [entry, first] = generations_[trainer.generation()].flags.try_emplace(step, flags);
  if (!first && entry->second != flags)
    world_.violated(str(trainer.name(), " reads other flags than the others after step ", step, " of ",
                        to_text(trainer.generation())));
}

void Checks::parks(TrainerProcess& trainer, const Parked& word) {
  if (word.reason != ParkReason::kCut && word.reason != ParkReason::kFinished) return;
  auto& cut = generations_[word.generation].cut;
  if (cut && *cut != word.held_step)
    world_.violated(str("the cut of ", to_text(word.generation), " is at step ", *cut, " and, for ",
                        trainer.name(), ", at step ", word.held_step));
  cut = word.held_step;
}

// ---- workers ----

void Checks::worker_acts(WorkerProcess& worker, std::uint64_t newest_term, const WorkerEvent& event,
                         const WorkerEffect& effect) {
  std::uint64_t term = newest_term;
  if (const auto* order = std::get_if<OrderedForTrainer>(&event)) term = order->term;
  if (const auto* order = std::get_if<OrderedKill>(&event)) term = order->term;
  if (const auto* order = std::get_if<Dismissed>(&event)) term = order->term;
  if (const auto* order = std::get_if<AskedToRegister>(&event)) term = order->term;
  if (term >= newest_term || std::holds_alternative<Warn>(effect)) return;
  world_.violated(str(worker.name(), " obeys term ", term, " though it has seen term ", newest_term));
}

// ---- coordinators ----

void Checks::coordinator_hears(CoordinatorProcess& coordinator, const Event& event) {
  Knowledge& known = known_[coordinator.term()];
  const Coordinator& machine = *coordinator.machine();
  known.generation = machine.generation();
  known.step = machine.step();
  known.stale = stale_generation(event, machine.generation());
  known.moved.clear();
  for (const auto& [name, trainer] : machine.trainers()) {
    if (trainer.rank >= 0) known.moved.push_back(name);
  }
  if (const auto* registered = std::get_if<WorkerRegistered>(&event)) {
    for (const TrainerState& state : registered->registration.trainers)
      known.registered.insert(state.ready.trainer);
  }
  if (const auto* done = std::get_if<CommitDone>(&event)) known.open.erase({done->step, done->generation});
  const auto* said = std::get_if<TrainerSaid>(&event);
  if (said != nullptr) notes_progress(machine, said->message, known.moved);
  const auto* shard = said == nullptr ? nullptr : std::get_if<ShardBegun>(&said->message);
  const bool saved = shard != nullptr && machine.committed_step() && *machine.committed_step() >= shard->step;
  if (shard != nullptr && !saved && shard->generation == machine.generation() &&
      machine.trainers().contains(shard->trainer))
    known.open.insert({shard->step, shard->generation});
}

// How far the generation has come and whether it crashed, as far as its coordinator is told.
void Checks::notes_progress(const Coordinator& machine, const FromTrainer& message,
                            const std::vector<std::string>& members) {
  const auto found = generations_.find(machine.generation());
  if (found == generations_.end()) return;
  Generation& generation = found->second;
  generation.reported = std::max(generation.reported, machine.step());
  const auto* parked = std::get_if<Parked>(&message);
  if (parked != nullptr && parked->holds && parked->generation == machine.generation()) {
    generation.reported = std::max(generation.reported, parked->held_step);
    if (machine.trainers().contains(parked->trainer)) verifies(parked->generation);
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
    if (const auto* order = std::get_if<OrderKill>(&effect)) kills(coordinator, order->kill);
    const auto* warn = std::get_if<Warn>(&effect);
    if (warn != nullptr && warn->line.find("states are not alike") != std::string::npos) {
      flips_noticed_ = world_.bits_flipped();
      doubted_.clear();
      noticed_in_ = std::max(known.generation, known.adopted);
      for (const Member& member : generations_[noticed_in_].start.members) doubted_.insert(member.trainer);
    }
    const auto* send = std::get_if<SendTrainer>(&effect);
    if (send == nullptr) continue;
    if (const auto* start = std::get_if<Start>(&send->message)) {
      if (start->rank == 0) forms(coordinator, *start);
    }
    const auto* abort = std::get_if<Abort>(&send->message);
    if (abort != nullptr && abort->generation == known.adopted) adopts_patiently(coordinator, known.adopted);
    if (std::holds_alternative<Quit>(send->message)) quits(coordinator, send->trainer);
    if (const auto* cut = std::get_if<Cut>(&send->message)) {
      for (const auto& [step, generation] : known.open) {
        if (generation == cut->generation)
          world_.violated(
              str("a cut for newcomers while the checkpoint of step ", step, " is being written"));
      }
    }
  }
}

// A state in which somebody has seen a flipped bit is never a source again, whoever coordinates. Where all
// who had seen it died before they could tell, nobody can know.
void Checks::trusts(const Start& start) {
  if (start.sources.empty()) return;
  for (std::size_t rank = 0; rank < start.members.size(); ++rank) {
    const std::string& name = start.members[rank].trainer;
    if (!doubted_.contains(name)) continue;
    const bool source = std::count(start.sources.begin(), start.sources.end(), static_cast<int>(rank)) > 0;
    if (!source) doubted_.erase(name);
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
  if (world_.disk().newest_term()->term != coordinator.term()) return;  // nobody obeys it
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
    if (of_last && trainer->held().whole && trainer->held().step > start.step && !rolled_back)
      world_.violated(str(to_text(start.generation), " starts at step ", start.step, " though ", name,
                          " holds step ", trainer->held().step));
  }
}

void Checks::kills(CoordinatorProcess&, const KillTrainer& kill) {
  const TrainerProcess* trainer = world_.trainer(kill.trainer);
  if (trainer == nullptr || !trainer->alive() || kill.why.rfind("it hangs", 0) != 0) return;
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
  if (!of_last || !trainer->alive() || !trainer->held().whole || world_.bits_flipped() > 0) return;
  known.newest_held = std::max(known.newest_held, trainer->held().step);
}

// A generation of an older term is not touched before it is clear about its members.
void Checks::adopts_patiently(CoordinatorProcess& coordinator, const GenerationId& adopted) {
  const Knowledge& known = known_[coordinator.term()];
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
    world_.violated(str("step ", done.step, " is recorded, but nobody has done it yet"));
  verifies(done.generation);
  // A report can be lost with its worker. Only after one fault the others are sure to make up for it.
  const std::uint64_t recorded = world_.disk().recorded_step;
  if (done.step > recorded + 1 && world_.faults() == 1 &&
      !generations_[done.generation].start.sources.empty()) {
    for (std::uint64_t step = recorded + 1; step < done.step; ++step) unrecorded_.insert(step);
  }
  unrecorded_.erase(done.step);
}

// A word about a generation that is over changes nothing.
void Checks::ignores(CoordinatorProcess& coordinator, const std::vector<Effect>& effects) {
  const Knowledge& known = known_[coordinator.term()];
  if (!known.stale) return;
  if (!effects.empty() || coordinator.machine()->step() != known.step)
    world_.violated(str(coordinator.name(), " acts on a word about ", to_text(*known.stale), " in ",
                        to_text(known.generation)));
}

// ---- the end ----

// Generations in a row that crashed and came no further than the one before. A coordinator may not have been
// told how far the generations of older terms had come.
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

void Checks::gave_up(CoordinatorProcess& coordinator, const Finish& finish) {
  const auto says = [&](const char* text) { return finish.line.find(text) != std::string::npos; };
  if (says("crash again and again")) {
    const int crashes =
        std::max(crashes_in_a_row(coordinator.term(), true), crashes_in_a_row(coordinator.term(), false));
    if (crashes >= 3) return;
    return world_.violated(
        str("the run gives up because of ", crashes, " generations that crashed at step ", *finish.stuck_at));
  } else if (says("could not be written")) {
    if (world_.was_full() || world_.was_away() > 0) return;
  } else if (says("cannot be restored")) {
    if (world_.was_away() > 30000) return;  // that long it is tried again
  } else if (says("before training begins")) {
    if (world_.crashes_injected() >= 3 && formed_ == 0) return;
  } else if (says("no trainer came up")) {
    if (world_.workers().empty()) return;  // they died while their supervisor stood still
  } else if (says("no memory is left")) {
    if (formed_ == 0) return;  // most often it is the same for all of them
  } else if (says("not finite")) {
    if (world_.not_finite(world_.plan().poison_step)) return;
  }
  world_.violated(str("the run gives up: ", finish.line));
}

void Checks::finishes(CoordinatorProcess& coordinator, const Finish& finish) {
  if (world_.disk().newest_term()->term > coordinator.term()) return;  // it is history, and so are its words
  if (finish.exit_code == 70) return gave_up(coordinator, finish);
  if (finish.exit_code == 78) return world_.violated(str("the run is refused: ", finish.line));
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
  if (finish.exit_code != 0) world_.checks_stop(finish);
}

// ---- the shared directory ----

void Checks::commits(CoordinatorProcess& coordinator, const Commit& commit) {
  const CheckpointId id{commit.step, commit.generation};
  const auto generation = generations_.find(commit.generation);
  if (generation == generations_.end())
    return world_.violated(str(id.name(), " is committed, but nobody wrote it"));
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
      world_.bits_are_void(str(id.name(), " holds a flipped state that nobody could notice"));
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
  // A coordinator that went on from an older generation knows nothing of it.
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
  if (!stored.damaged) world_.violated(str(name, " is set aside, and it is whole"));
}

}  // namespace rekindle::sim
