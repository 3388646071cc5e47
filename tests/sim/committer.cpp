#include "committer.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "coordinator.hpp"
#include "run/fencing.hpp"
#include "world.hpp"

namespace rekindle::sim {

using namespace protocol;

namespace {

constexpr Ms kLook = 50;

std::vector<std::string> names_of(const std::vector<checkpoint::CheckpointId>& ids) {
  std::vector<std::string> names;
  for (const checkpoint::CheckpointId& id : ids)
    names.push_back(CheckpointId{id.step, {id.term, id.generation}}.name());
  return names;
}

// Removes what checkpoint::sweep would remove. Returns what is left.
std::vector<std::string> sweep_disk(CoordinatorProcess& coordinator, checkpoint::SweepPlan plan) {
  World& world = coordinator.world();
  plan.keep = world.plan().job.keep;
  const auto list = checkpoint::sweep_list(world.disk().listed(coordinator.host()), plan);
  for (const checkpoint::CheckpointId& old : list.old) {
    const CheckpointId id{old.step, {old.term, old.generation}};
    world.checks().deletes(coordinator, id, false);
    world.disk().checkpoints().erase(id);
    if (world.logging()) world.log(str(coordinator.name(), " sweeps ", id.name()));
  }
  return names_of(world.disk().committed(coordinator.host()));
}

std::optional<CheckpointId> id_named(World& world, const std::string& name) {
  if (world.disk().find(name) == nullptr) return std::nullopt;
  return world.disk().id_of(name);
}

}  // namespace

// The commit of one checkpoint.
class CommitWork final : public run::CommitStorage {
 public:
  CommitWork(CoordinatorProcess& coordinator, const Commit& order)
      : coordinator_(coordinator),
        order_(order),
        id_{order.step, order.generation},
        steps_(*this, coordinator.term()) {}

  run::FencedCommit& steps() { return steps_; }
  CommitDone done() const {
    const std::string error = steps_.committed() ? "" : steps_.committed().error().what;
    return {order_.generation, order_.step, id_.name(), kSame, error, left_};
  }

  // The wait is over when all shards are visible here, or after kSeenWithin.
  bool waits() {
    if (steps_.next() != run::FencedCommit::Part::kManifest || waited_ >= kSeenWithin) return false;
    const StoredCheckpoint* stored = find();
    const bool there = stored != nullptr && std::ranges::all_of(order_.shards, [&](const std::string& shard) {
                         const auto found = stored->shards.find(std::stoi(shard));
                         return found != stored->shards.end() &&
                                world().disk().shows_checkpoint(found->second.made, coordinator_.host());
                       });
    waited_ += kLook;
    return !there;
  }

  Result<std::uint64_t> term_in_charge() override { return coordinator_.term_in_charge(); }
  bool superseded() override {
    const TermHolder* next = world().disk().term(coordinator_.term() + 1);
    return !world().disk().away() && next != nullptr &&
           world().disk().shows(next->claim, coordinator_.host());
  }
  void await_shards() override {}
  Status write_manifest() override {
    if (world().disk().full()) return fail("no space left on device");
    if (world().disk().away()) return fail("the storage is away");
    StoredCheckpoint* stored = find();
    const bool there = stored != nullptr && std::ranges::all_of(order_.shards, [&](const std::string& shard) {
                         return stored->shards.contains(std::stoi(shard));
                       });
    if (!there) return fail("a shard is gone");
    world().checks().commits(coordinator_, order_);
    if (!std::exchange(stored->committed, true))
      stored->manifest = world().disk().made_on(coordinator_.host());
    stored->state = stored->shards.begin()->second.state;
    stored->tainted = stored->shards.begin()->second.tainted;
    if (world().logging()) world().log(str(coordinator_.name(), " commits ", id_.name()));
    return {};
  }
  Status note_newest() override {
    if (world().disk().away()) return fail("the storage is away");
    world().checks().notes(coordinator_, id_);
    world().disk().noted = id_;
    return {};
  }
  Status sweep() override {
    checkpoint::SweepPlan plan;
    plan.newest = id_.real();
    for (const std::string& name : order_.pinned) {
      if (const auto id = id_named(world(), name)) plan.pinned.push_back(id->real());
    }
    left_ = sweep_disk(coordinator_, std::move(plan));
    return {};
  }

 private:
  World& world() const { return coordinator_.world(); }
  StoredCheckpoint* find() const {
    const auto found = world().disk().checkpoints().find(id_);
    return found == world().disk().checkpoints().end() ? nullptr : &found->second;
  }

  CoordinatorProcess& coordinator_;
  const Commit order_;
  const CheckpointId id_;
  run::FencedCommit steps_;
  Ms waited_ = 0;
  std::vector<std::string> left_;
};

Committer::Committer(CoordinatorProcess& coordinator) : coordinator_(coordinator) {}
Committer::~Committer() = default;

void Committer::commit(const Commit& order) {
  add([this, order] {
    commit_ = std::make_unique<CommitWork>(coordinator_, order);
    step();
  });
}

void Committer::sweep(const Sweep& order) {
  add([this, order] { sweep_now(order); });
}

void Committer::add(std::function<void()> work) {
  waiting_.push_back(std::move(work));
  if (waiting_.size() == 1) begin_next(5, 40);
}

void Committer::begin_next(Ms least, Ms most) {
  coordinator_.after(coordinator_.world().engine().between(least, most), [this] { waiting_.front()(); });
}

void Committer::step() {
  Engine& engine = coordinator_.world().engine();
  if (commit_->waits()) return coordinator_.after(kLook, [this] { step(); });
  commit_->steps().step();
  if (commit_->steps().next() != run::FencedCommit::Part::kDone)
    return coordinator_.after(engine.between(1, engine.chance(0.1) ? 1000 : 10), [this] { step(); });
  const std::uint64_t higher = commit_->steps().higher_term();
  const CommitDone done = commit_->done();
  coordinator_.after(engine.between(1, 20), [this, higher, done] {
    if (higher > 0) coordinator_.feed(Fenced{higher});
    answer(done);
  });
}

void Committer::sweep_now(const Sweep& order) {
  Swept swept;
  const auto restored = id_named(coordinator_.world(), order.restored);
  const auto in_charge = coordinator_.term_in_charge();
  if (restored && in_charge && *in_charge == coordinator_.term()) {
    const auto& noted = coordinator_.world().disk().noted;
    swept.kept = sweep_disk(
        coordinator_,
        checkpoint::plan_after_restore(restored->real(), {0, order.generation.term, order.generation.number},
                                       noted ? std::optional(noted->real()) : std::nullopt));
  }
  answer(swept);
}

void Committer::answer(const Event& event) {
  waiting_.pop_front();
  if (!waiting_.empty()) begin_next(1, 40);
  coordinator_.feed(event);
}

}  // namespace rekindle::sim
