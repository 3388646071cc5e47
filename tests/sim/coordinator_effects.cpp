// What the process does about the effects of its coordinator.
#include <algorithm>

#include "base/text.hpp"
#include "coordinator.hpp"
#include "protocol/describe.hpp"
#include "protocol/wire.hpp"
#include "supervisor.hpp"
#include "worker.hpp"
#include "world.hpp"

namespace rekindle::sim {

using namespace protocol;

namespace {
constexpr Ms kExitDelay = 200;
}  // namespace

void CoordinatorProcess::apply(const SendTrainer& effect) {
  const auto found = workers_.find(effect.worker);
  if (world().logging()) world().log(str(name(), " to ", effect.trainer, ": ", describe(effect.message)));
  if (found == workers_.end()) return;
  world().network().to_worker(*found->second, [term = term_, effect](WorkerProcess& worker) {
    worker.feed(OrderedForTrainer{term, effect.trainer, read_order(encode(effect.message)).value()});
  });
}

void CoordinatorProcess::apply(const KillTrainer& order) {
  if (world().logging()) world().log(str(name(), " kills ", order.trainer, ": ", order.why));
  send(order);
}
void CoordinatorProcess::apply(const Dismiss& order) { send(order); }
void CoordinatorProcess::apply(const RegisterAgain& order) { send(order); }

template <class Order>
void CoordinatorProcess::send(const Order& order) {
  const auto found = workers_.find(order.worker);
  if (found == workers_.end()) return;
  world().network().to_worker(*found->second, [order](WorkerProcess& worker) { worker.feed(order); });
}

void CoordinatorProcess::apply(const Commit& effect) {
  // The committer writes one manifest after the other, and each takes time.
  committer_.send(*this, world().engine().between(5, 60), [this, effect] { commit(effect); });
}

// Whether all files that the manifest will name exist: the checkpoint may have been abandoned once.
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
    if (world().logging()) world().log(str(name(), " commits ", id.name()));
    sweep(effect.pinned);
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

// The same as checkpoint::sweep.
void CoordinatorProcess::sweep(const std::vector<std::string>& pinned, const Sweep* after_restore) {
  std::uint64_t kept = 0;
  std::optional<CheckpointId> newest;
  auto& all = world().disk().checkpoints();
  std::vector<CheckpointId> old;
  for (auto it = all.rbegin(); it != all.rend(); ++it) {
    if (it->second.set_aside) continue;
    if (it->second.committed) {
      if (!newest && after_restore != nullptr && it->first.name() != after_restore->restored) continue;
      if (!newest) newest = it->first;
      const bool is_pinned = std::count(pinned.begin(), pinned.end(), it->first.name()) > 0;
      if (++kept > world().plan().job.keep && !is_pinned) old.push_back(it->first);
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
  // An older coordinator may have committed the checkpoint after this coordinator had listed the directory.
  if (stored.committed && world().disk().shows(stored.committed_at, stored.committed_on, host())) return;
  world().checks().deletes(*this, id, true);
  world().disk().checkpoints().erase(id);
  if (world().logging()) world().log(str(name(), " abandons ", id.name()));
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

void CoordinatorProcess::apply(const Info& effect) {
  if (world().logging()) world().log(str(name(), ": ", effect.line));
}

void CoordinatorProcess::apply(const Warn& effect) {
  if (world().logging()) world().log(str(name(), " warns: ", effect.line));
  if (effect.line.rfind("fewer than", 0) == 0) world().too_few();
}

void CoordinatorProcess::apply(const Finish& effect) {
  if (world().logging()) world().log(str(name(), " ends (", effect.exit_code, "): ", effect.line));
  world().checks().finishes(*this, effect);
  after(kExitDelay, [this, effect] {
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
