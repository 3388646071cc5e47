#include "coordinator.hpp"

#include <stdexcept>

#include "base/text.hpp"
#include "run/fencing.hpp"
#include "supervisor.hpp"
#include "worker.hpp"
#include "world.hpp"

namespace rekindle::sim {

using namespace protocol;

namespace {
constexpr Ms kTick = 200, kBetweenTries = 500, kLook = 50;
constexpr Ms kHeldUp = 1000;  // longer gaps between two events mean that the process was suspended
constexpr int kTicksPerBeat = 5, kTicksPerTermCheck = 25;
}  // namespace

CoordinatorProcess::CoordinatorProcess(World& world, std::string name, std::string host,
                                       Supervisor* supervisor, bool restarted)
    : Process(world, std::move(name), std::move(host)),
      supervisor_(supervisor),
      restarted_(restarted),
      claimant_(std::chrono::milliseconds(kClaimPatience)),
      committer_(*this) {}

void CoordinatorProcess::begin() {
  after(world().engine().between(20, 200), [this] { claim(); });
}

// Without storage a coordinator cannot start. The supervisor starts another one; for the first coordinator,
// the user does.
template <class TryAgain>
bool CoordinatorProcess::storage_is_away(TryAgain again) {
  if (!world().disk().away()) return false;
  if (restarted_)
    exit(70);
  else
    after(500, again);
  return true;
}

std::optional<run::SeenTerm> CoordinatorProcess::seen_term() const {
  const TermHolder* newest = world().disk().newest_term(host());
  if (newest == nullptr) return std::nullopt;
  const bool ended = newest->end && world().disk().shows(*newest->end, host());
  const bool dead_here = newest->holder->host() == host() && !newest->holder->alive();
  const bool requeued = world().plan().requeued && newest->attempt < world().attempt();
  return run::SeenTerm{newest->term, ended, ended || dead_here || requeued};
}

// Whether the holder gives a sign of life: its process is visible here, or its address answers.
bool CoordinatorProcess::answers(const TermHolder& holder) const {
  if (holder.holder->host() == host()) return holder.holder->alive();
  const Disk::Place* place = world().disk().place(host());
  if (place == nullptr) return false;
  const TermHolder* at = world().disk().term(place->term);
  return at->holder->alive() && !world().head_is_cut_off(at->holder->host()) &&
         !world().head_is_cut_off(host());
}

// One try of run::claim_term.
void CoordinatorProcess::claim() {
  if (storage_is_away([this] { claim(); })) return;
  const Ms began = clock();
  const auto seen = seen_term();
  // As run::claim_term with a lost term: an attempt that has ended is not taken over.
  const bool over = seen && seen->ended && world().disk().term(seen->term)->attempt == world().attempt();
  if (restarted_ && over) return refused();
  const auto term = claimant_.term_to_claim(seen);
  // Started by mistake: the run that it would disturb has just lost its coordinator.
  if (term && supervisor_ == nullptr) return exit(78);
  if (!term || !claimant_.on_created(*term, world().disk().claim(*term, *this))) return look_again(began);
  term_ = *term;
  world().checks().claims(*this);
  world().claimed(*supervisor_);
  after(world().engine().between(10, 100), [this] { restarted_ ? come_up() : await_newest(0); });
}

void CoordinatorProcess::refused() {
  if (supervisor_ != nullptr) supervisor_->refused(*this);
  exit(78);
}

void CoordinatorProcess::look_again(Ms began) {
  const auto seen = seen_term();
  const bool asks = run::Claimant::has_to_ask(seen);
  const bool alive = asks && answers(*world().disk().term(seen->term));
  if (alive && claimant_.on_answer()) return refused();
  after(kBetweenTries, [this, began, asks, alive, seen] {
    if (asks && !alive) claimant_.on_silence(seen->term, std::chrono::milliseconds(clock() - began));
    claim();
  });
}

// As checkpoint::await_newest.
void CoordinatorProcess::await_newest(Ms waited) {
  if (storage_is_away([this, waited] { await_newest(waited); })) return;
  const auto& noted = world().disk().noted;
  const auto found = noted ? world().disk().checkpoints().find(*noted) : world().disk().checkpoints().end();
  const bool set_aside = found != world().disk().checkpoints().end() && found->second.set_aside;
  const bool missing =
      noted && checkpoint::is_missing(noted->real(), world().disk().committed(host()), set_aside);
  if (missing && waited < kSeenWithin) return after(kLook, [this, waited] { await_newest(waited + kLook); });
  come_up();
}

CoordinatorConfig CoordinatorProcess::survey() const {
  CoordinatorConfig config = world().plan().timings;
  config.job = world().plan().job;
  config.term = term_;
  config.restarted = restarted_;
  config.expected_trainers = world().plan().workers * world().plan().slots;
  Disk& disk = world().disk();
  for (const checkpoint::CheckpointId& id : disk.committed(host()))
    config.restorable.push_back({CheckpointId{id.step, {id.term, id.generation}}.name(), id.step, kSame});
  for (const auto& [step, done] : disk.evaluated) config.evaluated.insert(step);
  config.recorded_step = disk.recorded_step;
  return config;
}

void CoordinatorProcess::come_up() {
  if (storage_is_away([this] { come_up(); })) return;
  const CoordinatorConfig known = survey();
  world().checks().attempt_begins(known);
  machine_.emplace(known, Time(clock()));
  world().disk().publish(term_, host());
  if (world().logging()) world().log(str(name(), " holds term ", term_));
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
      feed(StopRun{75, "rekindle stop", Time(0)});
  }
  if (ticks_ % kTicksPerTermCheck == 0) look_for_newer_term();
  after(kTick, [this] { tick(); });
}

Result<std::uint64_t> CoordinatorProcess::term_in_charge() const {
  if (world().disk().away()) return fail("the storage is away");
  const TermHolder* newest = world().disk().newest_term(host());
  const auto term = run::term_in_charge({newest->term, newest->holder == this, false}, term_);
  if (!term) return fail("this run's claim is not there");
  return *term;
}

bool CoordinatorProcess::in_charge() const { return term_in_charge().value_or(0) == term_; }

void CoordinatorProcess::look_for_newer_term() {
  const auto term = term_in_charge();
  if (term && *term > term_) feed(Fenced{*term});
}

void CoordinatorProcess::enter(Connection& connection, std::uint64_t term, const Registration& registration) {
  if (!machine_) return;
  const std::string refused = term == term_ ? "" : "another term";
  // The answer is sent before any order.
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
  const Ms now = clock();
  if (now - std::exchange(fed_, now) > kHeldUp) look_for_newer_term();
  if (!alive() || !machine_) return;
  if (std::holds_alternative<StopRun>(event)) stop_known_ = true;
  world().coverage().coordinator(machine_->phase(), event);
  const Phase before = machine_->phase();
  world().checks().on_coordinator_event(*this, event);
  std::vector<Effect> effects;
  try {
    effects = machine_->on(Time(clock()), event);
  } catch (const std::logic_error& error) {  // a broken invariant
    return world().violated(str(name(), ": ", error.what()));
  }
  if (world().logging()) world().log_event(*this, before, event);
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

}  // namespace rekindle::sim
