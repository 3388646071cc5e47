#include "worker.hpp"

#include "base/text.hpp"
#include "coordinator.hpp"
#include "protocol/wire.hpp"
#include "world.hpp"

namespace rekindle::sim {

using namespace protocol;

namespace {

constexpr Ms kTick = 200, kPoll = 500;

WorkerConfig worker_config(const std::string& name, const std::string& host, int slots, bool joined) {
  WorkerConfig config;
  config.worker = name;
  config.host = host;
  config.slots = slots;
  config.joined = joined;
  config.last_restart = Time(4000);
  config.warm_up_limit = Time(8000);
  return config;
}

}  // namespace

WorkerProcess::WorkerProcess(World& world, std::string name, std::string host, bool joined,
                             std::string fingerprint)
    : Process(world, name, host),
      fingerprint_(std::move(fingerprint)),
      machine_(worker_config(name, host, world.plan().slots, joined), Time(clock())) {}

void WorkerProcess::begin() {
  after(world().engine().between(0, kTick), [this] { tick(); });
  after(world().engine().between(0, kPoll), [this] { poll(); });
}

void WorkerProcess::tick() {
  feed(WorkerTick{});
  after(kTick, [this] { tick(); });
}

void WorkerProcess::poll() {
  if (const Disk::Place* place = world().disk().place(host())) feed(TermSeen{place->term});
  after(kPoll, [this] { poll(); });
}

int WorkerProcess::state() const {
  if (machine_.registered()) return 3;
  if (connecting_) return 1;
  return connection_ != nullptr ? 2 : 0;
}

void WorkerProcess::feed(const WorkerEvent& event) {
  if (!alive()) return;
  world().coverage().worker(state(), event);
  const std::uint64_t newest = machine_.term();
  for (const WorkerEffect& effect : machine_.on(Time(clock()), event)) {
    world().checks().worker_acts(*this, newest, event, effect);
    std::visit([this](const auto& e) { apply(e); }, effect);
    if (!alive()) return;
  }
}

void WorkerProcess::connected(Connection& connection) {
  leave_old();
  if (connection.term < machine_.term()) return world().network().close_from_worker(connection);
  connection_ = &connection;
  feed(Connected{connection.term});
  connecting_ = false;
}

void WorkerProcess::not_connected(std::uint64_t term) {
  leave_old();
  feed(Disconnected{term});
  connecting_ = connecting_ && term < machine_.term();
}

void WorkerProcess::lost(Connection& connection) {
  if (old_ == &connection) old_ = nullptr;
  feed(Disconnected{connection.term});
  if (connection_ == &connection) connection_ = nullptr;
}

void WorkerProcess::leave_old() {
  Connection* old = std::exchange(old_, nullptr);
  if (old != nullptr && old->worker_end) world().network().close_from_worker(*old);
}

std::vector<TrainerProcess*> WorkerProcess::trainers() const {
  std::vector<TrainerProcess*> living;
  for (const auto& [name, child] : children_) {
    if (child.process->alive()) living.push_back(child.process);
  }
  return living;
}

void WorkerProcess::ended(bool by_signal, int code) {
  for (const auto& connection : world().network().connections()) {
    if (connection->worker != this || !connection->worker_end) continue;
    if (lost_node) connection->silent = true;
    world().network().close_from_worker(*connection);
  }
  for (TrainerProcess* trainer : trainers()) {
    if (lost_node) trainer->kill();
    // The trainer reads end of file from its socket.
    trainer->after(world().engine().between(0, 5), [trainer] { trainer->exit(70); });
  }
  world().worker_ended(*this, by_signal, code);
}

// The old connection is closed after the attempt to open a new one; its messages arrive until then.
void WorkerProcess::apply(const Connect& effect) {
  connecting_ = true;
  if (connection_ != nullptr) {
    leave_old();
    old_ = std::exchange(connection_, nullptr);
  }
  world().network().connect(*this, effect.term);
}

void WorkerProcess::apply(const SendRegistration& effect) {
  if (connection_ == nullptr) return;
  Connection& connection = *connection_;
  world().network().to_coordinator(connection, [&connection, effect](CoordinatorProcess& coordinator) {
    coordinator.enter(connection, effect.term, effect.registration);
  });
}

void WorkerProcess::apply(const SendReport& effect) {
  if (connection_ == nullptr) return;
  world().network().to_coordinator(*connection_, [name = name(), effect](CoordinatorProcess& coordinator) {
    coordinator.reported(effect.term, TrainerReported{name, decode<FromTrainer>(effect.message).value()});
  });
}

void WorkerProcess::apply(const SendBeat& effect) {
  if (connection_ == nullptr) return;
  world().network().to_coordinator(*connection_, [name = name(), effect](CoordinatorProcess& coordinator) {
    coordinator.reported(effect.term, WorkerBeatSeen{name, effect.trainers});
  });
}

void WorkerProcess::apply(const PassOn& effect) {
  const auto found = children_.find(effect.trainer);
  if (found == children_.end() || !found->second.process->alive()) return;
  TrainerProcess& trainer = *found->second.process;
  found->second.orders.send(
      trainer, world().engine().between(0, 1),
      [&trainer, message = decode<ToTrainer>(effect.message).value()] { trainer.on_message(message); });
}

void WorkerProcess::apply(const StartTrainer& effect) {
  children_[effect.trainer].process = &world().start_trainer(effect.trainer, *this);
}

void WorkerProcess::apply(const KillTrainer& effect) {
  const auto found = children_.find(effect.trainer);
  if (found != children_.end()) found->second.process->kill();
}

void WorkerProcess::apply(const LeaveRun& effect) {
  for (TrainerProcess* trainer : trainers()) trainer->kill();
  exit(effect.exit_code);
}

void WorkerProcess::apply(const Warn& effect) {
  if (world().logging()) world().log(str(name(), " warns: ", effect.line));
}

}  // namespace rekindle::sim
