#include "coordinator.hpp"

#include <stdexcept>

#include "base/text.hpp"
#include "supervisor.hpp"
#include "worker.hpp"
#include "world.hpp"

namespace rekindle::sim {

using namespace protocol;

namespace {
constexpr Ms kTick = 200, kPatience = 30000;
constexpr Ms kHeldUp = 1000;  // longer gaps between two events mean that the process was suspended
constexpr int kTicksPerBeat = 5, kTicksPerTermCheck = 25;
}  // namespace

CoordinatorProcess::CoordinatorProcess(World& world, std::string name, std::string host,
                                       Supervisor* supervisor, bool restarted)
    : Process(world, std::move(name), std::move(host)), supervisor_(supervisor), restarted_(restarted) {}

void CoordinatorProcess::begin() {
  after(world().engine().between(20, 200), [this] { claim(0); });
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
  // Started by mistake: the run that it would disturb has just lost its coordinator.
  if (supervisor_ == nullptr) return exit(78);
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
  machine_.emplace(survey(), Time(clock()));
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
