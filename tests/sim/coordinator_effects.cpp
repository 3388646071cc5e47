// What the process does about the effects of its coordinator.
#include <algorithm>

#include "base/text.hpp"
#include "checkpoint/listing.hpp"
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

void CoordinatorProcess::apply(const Commit& effect) { committer_.commit(effect); }
void CoordinatorProcess::apply(const Sweep& effect) { committer_.sweep(effect); }

void CoordinatorProcess::apply(const Abandon& effect) {
  if (!in_charge()) return;
  const CheckpointId id{effect.step, effect.generation};
  const auto found = world().disk().checkpoints().find(id);
  if (found == world().disk().checkpoints().end()) return;
  const StoredCheckpoint& stored = found->second;
  const bool committed = stored.committed && world().disk().shows_checkpoint(stored.manifest, host());
  const auto& noted = world().disk().noted;
  if (!checkpoint::may_abandon(id.real(), committed, noted ? std::optional(noted->real()) : std::nullopt))
    return;
  world().checks().deletes(*this, id, true);
  world().disk().checkpoints().erase(id);
  if (world().logging()) world().log(str(name(), " abandons ", id.name()));
}

void CoordinatorProcess::apply(const SetAside& effect) {
  if (!in_charge()) return;
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
  if (effect.about == protocol::WarnAbout::kTooFewTrainers) world().too_few();
}

void CoordinatorProcess::apply(const Finish& effect) {
  if (world().logging()) world().log(str(name(), " ends (", effect.exit_code, "): ", effect.line));
  world().checks().finishes(*this, effect);
  after(kExitDelay, [this, effect] {
    if (!world().disk().away()) world().disk().end_term(term_, host());
    if (supervisor_ != nullptr) {
      Supervisor* supervisor = supervisor_;
      to_supervisor_.send(*supervisor, 1,
                          [this, supervisor, effect] { supervisor->run_ended(*this, effect); });
    }
    exit(effect.exit_code);
  });
}

}  // namespace rekindle::sim
