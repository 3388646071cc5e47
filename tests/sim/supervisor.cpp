#include "supervisor.hpp"

#include "base/text.hpp"
#include "coordinator.hpp"
#include "worker.hpp"
#include "world.hpp"

namespace rekindle::sim {

using namespace protocol;

namespace {
constexpr Ms kTick = 500, kCoordinatorHangs = 10000;
}

Supervisor::Supervisor(World& world, std::string name, std::string host, bool takes_over)
    : Process(world, std::move(name), std::move(host)), any_coordinator_(takes_over) {}

void Supervisor::begin() {
  start_coordinator();
  tick();
}

void Supervisor::start_coordinator() {
  if (over_) return;
  coordinator_ = &world().start_coordinator(host(), this, std::exchange(any_coordinator_, true));
  last_beat_at_ = clock();
}

void Supervisor::tick() {
  const Ms now = clock();
  const bool late = ticked_at_ > 0 && now - ticked_at_ > 2 * kTick;  // this supervisor itself was suspended
  if (late) last_beat_at_ = now;
  ticked_at_ = now;
  if (coordinator_ != nullptr && coordinator_->listening() && now - last_beat_at_ > kCoordinatorHangs)
    coordinator_->kill();
  after(kTick, [this] { tick(); });
}

void Supervisor::ask_stop(StopRun stop) {
  if (!stop_) stop_ = stop;
  if (coordinator_ == nullptr || !coordinator_->listening()) return;
  coordinator_->after(1, [coordinator = coordinator_, stop] { coordinator->feed(stop); });
}

void Supervisor::coordinator_is_up(CoordinatorProcess& coordinator) {
  if (&coordinator != coordinator_) return;
  last_beat_at_ = clock();
  if (stop_) coordinator.after(1, [&coordinator, stop = *stop_] { coordinator.feed(stop); });
}

void Supervisor::beat_from(CoordinatorProcess& coordinator) {
  if (&coordinator == coordinator_) last_beat_at_ = clock();
}

void Supervisor::coordinator_ended(CoordinatorProcess& coordinator) {
  if (&coordinator != coordinator_ || over_) return;
  coordinator_ = nullptr;
  after(world().engine().between(100, 1000), [this] { start_coordinator(); });
}

void Supervisor::refused(CoordinatorProcess&) {
  over_ = true;
  coordinator_ = nullptr;
  world().gave_way(*this);
}

void Supervisor::run_ended(CoordinatorProcess& coordinator, const Finish& finish) {
  if (&coordinator != coordinator_ || over_) return;
  over_ = true;
  world().run_ended(*this, finish);
}

void Supervisor::worker_ended(WorkerProcess& worker, bool by_signal, int code) {
  if (over_) return;
  if (coordinator_ != nullptr && coordinator_->listening() && !worker.lost_node) {
    coordinator_->after(world().engine().between(1, 30), [coordinator = coordinator_, name = worker.name()] {
      coordinator->feed(WorkerLost{name, "it died"});
    });
  }
  if (!by_signal) return;  // the worker exited by itself
  after(world().engine().between(300, 1500), [this, host = worker.host()] {
    if (!over_) world().start_worker(host);
  });
}

}  // namespace rekindle::sim
