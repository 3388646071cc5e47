#include "coordinator.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "protocol/describe.hpp"
#include "supervisor.hpp"
#include "worker.hpp"
#include "world.hpp"

namespace rekindle::sim {

using namespace protocol;

namespace {
constexpr Ms kTick = 200, kPatience = 30000, kLastWords = 200;
constexpr Ms kHeldUp = 1000;  // between two events
constexpr int kTicksPerBeat = 5, kTicksPerTermCheck = 25;
}  // namespace

CoordinatorProcess::CoordinatorProcess(World& world, std::string name, std::string host,
                                       Supervisor* supervisor, bool restarted)
    : Process(world, std::move(name), std::move(host)), supervisor_(supervisor), restarted_(restarted) {}

void CoordinatorProcess::begin() {
  after(world().engine().between(20, 200), [this] { claim(0); });
}

// Without the storage it cannot come up: its supervisor starts another one, or (the first one) a person.
template <class TryAgain>
bool CoordinatorProcess::storage_is_away(TryAgain again) {
  if (!world().disk().away()) return false;
  if (restarted_)
    exit(70);
  else
    after(500, again);
  return true;
}

void CoordinatorProcess::claim(Ms silent) {
  if (storage_is_away([this, silent] { claim(silent); })) return;
  const TermHolder* newest = world().disk().newest_term();
  const bool free = newest == nullptr || newest->ended;
  const bool dead_here = !free && newest->holder->host() == host() && !newest->holder->alive();
  if (!free && !dead_here && silent < kPatience) {
    const bool answers = newest->holder->alive() && !world().head_is_cut_off(newest->holder->host());
    if (answers) {
      if (supervisor_ != nullptr) supervisor_->refused(*this);
      return exit(78);
    }
    return after(500, [this, silent] { claim(silent + 500); });
  }
  if (supervisor_ == nullptr) return exit(78);  // the run that it would disturb has just lost its own
  term_ = world().disk().claim(*this);
  after(world().engine().between(10, 100), [this] { come_up(); });
}

CoordinatorConfig CoordinatorProcess::survey() const {
  CoordinatorConfig config = world().plan().timings;
  config.job = world().plan().job;
  config.term = term_;
  config.restarted = restarted_;
  config.expected_trainers = world().plan().workers * world().plan().slots;
  Disk& disk = world().disk();
  for (const auto& [id, checkpoint] : disk.committed()) {
    if (disk.shows(checkpoint->committed_at, checkpoint->committed_on, host()))
      config.restorable.push_back({id.name(), id.step, kSame});
  }
  for (const auto& [step, done] : disk.evaluated) config.evaluated.insert(step);
  config.recorded_step = disk.recorded_step;
  return config;
}

void CoordinatorProcess::come_up() {
  if (storage_is_away([this] { come_up(); })) return;
  machine_.emplace(survey(), Time(world().engine().now()));
  world().disk().publish(term_, host());
  if (world().telling()) world().tell(str(name(), " holds term ", term_));
  if (supervisor_ != nullptr) supervisor_->coordinator_is_up(*this);
  tick();
}

void CoordinatorProcess::tick() {
  feed(Tick{});
  ++ticks_;
  if (ticks_ % kTicksPerBeat == 0) {
    if (supervisor_ != nullptr)
      to_supervisor_.send(*supervisor_, 1, [this] { supervisor_->beat_from(*this); });
    if (world().disk().stop_requested && !world().disk().away() && !std::exchange(stop_seen_, true))
      feed(StopAsked{75, "rekindle stop", Time(0)});
  }
  if (ticks_ % kTicksPerTermCheck == 0) look_for_newer_term();
  after(kTick, [this] { tick(); });
}

std::optional<std::uint64_t> CoordinatorProcess::newer_term() const {
  const TermHolder* newest = world().disk().newest_term();
  if (newest->term > term_ && !world().disk().away()) return newest->term;
  return std::nullopt;
}

void CoordinatorProcess::look_for_newer_term() {
  if (const auto newer = newer_term()) feed(Fenced{*newer});
}

void CoordinatorProcess::enter(Connection& connection, std::uint64_t term, const Registration& registration) {
  if (!machine_) return;
  const std::string refused = term == term_ ? "" : "another term";
  // Before any order to it.
  world().network().to_worker(connection, [own = term_, refused](WorkerProcess& worker) {
    worker.feed(Welcomed{own, refused});
  });
  if (!refused.empty()) return;
  workers_[registration.worker] = &connection;
  feed(WorkerRegistered{registration});
}

void CoordinatorProcess::reported(std::uint64_t term, const Event& event) {
  if (term == term_) feed(event);
}

void CoordinatorProcess::lost(Connection& connection) {
  const auto found = workers_.find(connection.worker->name());
  if (found == workers_.end() || found->second != &connection) return;
  workers_.erase(found);
  feed(WorkerLost{connection.worker->name(), "its connection broke"});
}

void CoordinatorProcess::feed(const Event& event) {
  if (!alive() || !machine_) return;
  const Ms now = world().engine().now();
  if (now - std::exchange(fed_, now) > kHeldUp) look_for_newer_term();
  if (!alive() || !machine_) return;
  if (std::holds_alternative<StopAsked>(event)) stop_known_ = true;
  world().coverage().coordinator(machine_->phase(), event);
  const Phase before = machine_->phase();
  world().checks().coordinator_hears(*this, event);
  const auto effects = machine_->on(Time(world().engine().now()), event);
  if (world().telling()) world().tell_event(*this, before, event);
  world().checks().coordinator_decides(*this, effects);
  for (const Effect& effect : effects) {
    std::visit([this](const auto& e) { apply(e); }, effect);
    if (!alive()) return;
  }
  if (machine_->phase() != before) world().coordinator_came_to(*this, machine_->phase());
}

void CoordinatorProcess::ended(bool, int) {
  for (const auto& connection : world().network().connections()) {
    if (connection->coordinator == this && connection->coordinator_end)
      world().network().close_from_coordinator(*connection);
  }
  if (supervisor_ != nullptr) {
    Supervisor* supervisor = supervisor_;
    supervisor->after(world().engine().between(1, 20),
                      [this, supervisor] { supervisor->coordinator_ended(*this); });
  }
}

// ---- effects ----

void CoordinatorProcess::apply(const SendTrainer& effect) {
  const auto found = workers_.find(effect.worker);
  if (world().telling()) world().tell(str(name(), " to ", effect.trainer, ": ", describe(effect.message)));
  if (found == workers_.end()) return;
  world().network().to_worker(*found->second, [term = term_, effect](WorkerProcess& worker) {
    worker.feed(OrderedForTrainer{term, {effect.trainer, effect.message}});
  });
}

void CoordinatorProcess::apply(const OrderKill& effect) {
  const auto found = workers_.find(effect.worker);
  if (world().telling()) world().tell(str(name(), " kills ", effect.kill.trainer, ": ", effect.kill.why));
  if (found == workers_.end()) return;
  world().network().to_worker(*found->second, [term = term_, effect](WorkerProcess& worker) {
    worker.feed(OrderedKill{term, effect.kill});
  });
}

void CoordinatorProcess::apply(const DismissWorker& effect) {
  const auto found = workers_.find(effect.worker);
  if (found == workers_.end()) return;
  world().network().to_worker(*found->second, [term = term_, effect](WorkerProcess& worker) {
    worker.feed(Dismissed{term, effect.dismiss});
  });
}

void CoordinatorProcess::apply(const AskToRegister& effect) {
  const auto found = workers_.find(effect.worker);
  if (found == workers_.end()) return;
  world().network().to_worker(*found->second,
                              [term = term_](WorkerProcess& worker) { worker.feed(AskedToRegister{term}); });
}

void CoordinatorProcess::apply(const Commit& effect) {
  // Its committer writes one manifest after the other; this takes time.
  committer_.send(*this, world().engine().between(5, 60), [this, effect] { commit(effect); });
}

// Whether the files are there that the manifest is going to name: it may have been abandoned once.
bool CoordinatorProcess::all_there(const CheckpointId& id, const std::vector<std::string>& shards) const {
  const auto found = world().disk().checkpoints().find(id);
  if (found == world().disk().checkpoints().end()) return false;
  return std::all_of(shards.begin(), shards.end(), [&](const std::string& shard) {
    return found->second.shards.contains(std::stoi(shard));
  });
}

void CoordinatorProcess::commit(const Commit& effect) {
  const CheckpointId id{effect.step, effect.generation};
  CommitDone done{effect.generation, effect.step, id.name(), kSame, "", {}};
  const auto newer = newer_term();
  if (newer) {
    done.error = str("term ", *newer, " has taken over");
    feed(Fenced{*newer});
  } else if (world().disk().full()) {
    done.error = "no space left on device";
  } else if (world().disk().away()) {
    done.error = "the storage is away";
  } else if (!all_there(id, effect.shards)) {
    done.error = "a shard is gone";
  } else {
    world().checks().commits(*this, effect);
    StoredCheckpoint& stored = world().disk().checkpoints()[id];
    stored.committed = true;
    stored.committed_at = world().engine().now();
    stored.committed_on = host();
    if (!stored.shards.empty()) {
      stored.state = stored.shards.begin()->second.state;
      stored.tainted = stored.shards.begin()->second.tainted;
    }
    if (world().telling()) world().tell(str(name(), " commits ", id.name()));
    sweep(effect.spared);
    for (const auto& [kept, checkpoint] : world().disk().committed()) done.kept.push_back(kept.name());
  }
  committer_.send(*this, world().engine().between(1, 20), [this, done] { feed(done); });
}

void CoordinatorProcess::apply(const Sweep& effect) {
  committer_.send(*this, world().engine().between(1, 40), [this, effect] {
    if (newer_term() || world().disk().away()) return;
    Swept swept;
    sweep({effect.restored}, &effect);
    for (const auto& [kept, checkpoint] : world().disk().committed()) swept.kept.push_back(kept.name());
    feed(swept);
  });
}

// checkpoint::sweep
void CoordinatorProcess::sweep(const std::vector<std::string>& spared, const Sweep* after_restore) {
  std::uint64_t kept = 0;
  std::optional<CheckpointId> newest;
  auto& all = world().disk().checkpoints();
  std::vector<CheckpointId> old;
  for (auto it = all.rbegin(); it != all.rend(); ++it) {
    if (it->second.set_aside) continue;
    if (it->second.committed) {
      if (!newest && after_restore != nullptr && it->first.name() != after_restore->restored) continue;
      if (!newest) newest = it->first;
      const bool is_spared = std::count(spared.begin(), spared.end(), it->first.name()) > 0;
      if (++kept > world().plan().job.keep && !is_spared) old.push_back(it->first);
    } else if (after_restore != nullptr && it->first.generation < after_restore->generation) {
      old.push_back(it->first);
    } else if (newest &&
               (it->first.step < newest->step ||
                (it->first.step == newest->step && it->first.generation.term < newest->generation.term))) {
      old.push_back(it->first);
    }
  }
  for (const CheckpointId& id : old) {
    world().checks().deletes(*this, id, false);
    all.erase(id);
  }
}

void CoordinatorProcess::apply(const Abandon& effect) {
  if (newer_term() || world().disk().away()) return;
  const CheckpointId id{effect.step, effect.generation};
  const auto found = world().disk().checkpoints().find(id);
  if (found == world().disk().checkpoints().end()) return;
  const StoredCheckpoint& stored = found->second;
  // An older coordinator may have committed it when this one had looked already.
  if (stored.committed && world().disk().shows(stored.committed_at, stored.committed_on, host())) return;
  world().checks().deletes(*this, id, true);
  world().disk().checkpoints().erase(id);
  if (world().telling()) world().tell(str(name(), " abandons ", id.name()));
}

void CoordinatorProcess::apply(const SetAside& effect) {
  if (newer_term() || world().disk().away()) return;
  if (StoredCheckpoint* stored = world().disk().find(effect.checkpoint)) {
    world().checks().sets_aside(effect.checkpoint, *stored);
    stored->set_aside = true;
  }
}

void CoordinatorProcess::apply(const Rewind& effect) {
  world().disk().recorded_step = std::min(world().disk().recorded_step, effect.step);
  auto& evaluated = world().disk().evaluated;
  evaluated.erase(evaluated.upper_bound(effect.step), evaluated.end());
}

void CoordinatorProcess::apply(const RecordStep& effect) {
  world().checks().records(effect.done);
  world().disk().recorded_step = std::max(world().disk().recorded_step, effect.done.step);
}

void CoordinatorProcess::apply(const RecordEvaluation& effect) {
  world().disk().evaluated[effect.evaluated.step] = true;
}

void CoordinatorProcess::apply(const Tell& effect) {
  if (world().telling()) world().tell(str(name(), ": ", effect.line));
}

void CoordinatorProcess::apply(const Warn& effect) {
  if (world().telling()) world().tell(str(name(), " warns: ", effect.line));
  if (effect.line.rfind("fewer than", 0) == 0) world().too_few();
}

void CoordinatorProcess::apply(const Finish& effect) {
  if (world().telling()) world().tell(str(name(), " ends (", effect.exit_code, "): ", effect.line));
  world().checks().finishes(*this, effect);
  after(kLastWords, [this, effect] {
    if (!world().disk().away()) world().disk().end_term(term_);
    if (supervisor_ != nullptr) {
      Supervisor* supervisor = supervisor_;
      to_supervisor_.send(*supervisor, 1,
                          [this, supervisor, effect] { supervisor->run_ended(*this, effect); });
    }
    exit(effect.exit_code);
  });
}

}  // namespace rekindle::sim
