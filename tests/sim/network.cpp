#include "network.hpp"

#include "coordinator.hpp"
#include "worker.hpp"
#include "world.hpp"

namespace rekindle::sim {

using namespace protocol;

Ms Network::delay(const std::map<std::string, Ms>& held, const std::string& host) const {
  Engine& engine = world_.engine();
  const auto found = held.find(host);
  const Ms wait = found == held.end() ? 0 : std::max<Ms>(0, found->second - engine.now());
  const Ms usual = engine.between(0, world_.plan().network_ms);
  return wait + (engine.chance(0.01) ? usual * 20 : usual);
}

void Network::connect(WorkerProcess& worker, std::uint64_t term) {
  const Ms wait = delay(up_held_, worker.host()) + delay(down_held_, worker.host());
  const Ms slow = world_.engine().chance(0.2) ? world_.engine().between(0, 1500) : 0;
  constexpr Ms kPatience = 2000;
  worker.after(std::min(wait, kPatience) + slow, [this, &worker, term, wait] {
    CoordinatorProcess* coordinator = world_.coordinator_of(term);
    if (wait >= kPatience || coordinator == nullptr || !coordinator->listening())
      return worker.not_connected(term);
    connections_.push_back(std::make_unique<Connection>());
    Connection& connection = *connections_.back();
    connection.worker = &worker;
    connection.coordinator = coordinator;
    connection.term = term;
    worker.connected(connection);
  });
}

void Network::to_coordinator(Connection& c, std::function<void(CoordinatorProcess&)> what) {
  if (!c.worker_end || c.silent) return;
  c.up.send(*c.coordinator, delay(up_held_, c.worker->host()), [&c, what = std::move(what)] {
    if (c.coordinator_end && !c.silent) what(*c.coordinator);
  });
}

void Network::to_worker(Connection& c, std::function<void(WorkerProcess&)> what) {
  if (!c.coordinator_end || c.silent) return;
  c.down.send(*c.worker, delay(down_held_, c.worker->host()), [&c, what = std::move(what)] {
    if (c.worker_end && !c.silent) what(*c.worker);
  });
}

void Network::close_from_worker(Connection& c) {
  to_coordinator(c, [&c](CoordinatorProcess& coordinator) {
    c.coordinator_end = false;
    coordinator.lost(c);
  });
  c.worker_end = false;
}

void Network::close_from_coordinator(Connection& c) {
  to_worker(c, [&c](WorkerProcess& worker) {
    c.worker_end = false;
    worker.lost(c);
  });
  c.coordinator_end = false;
}

void Network::lose(Connection& c, Ms worker_learns, Ms coordinator_learns) {
  c.silent = true;
  c.worker->after(worker_learns, [&c] {
    if (!std::exchange(c.worker_end, false)) return;
    c.worker->lost(c);
  });
  c.coordinator->after(coordinator_learns, [&c] {
    if (!std::exchange(c.coordinator_end, false)) return;
    c.coordinator->lost(c);
  });
}

}  // namespace rekindle::sim
