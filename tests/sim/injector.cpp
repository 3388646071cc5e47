#include "injector.hpp"

#include <algorithm>
#include <csignal>

#include "base/text.hpp"
#include "coordinator.hpp"
#include "supervisor.hpp"

namespace rekindle::sim {

namespace {

constexpr Ms kForEver = 1000000000;

template <class T>
T* any(Engine& engine, const std::vector<T*>& all) {
  return all.empty() ? nullptr : all[engine.below(all.size())];
}

}  // namespace

TrainerProcess* Injector::trainer() {
  TrainerProcess* focus = world_.focus();
  if (focus != nullptr && focus->alive() && engine_.chance(0.7)) return focus;
  return any(engine_, world_.trainers());
}

WorkerProcess* Injector::worker() { return any(engine_, world_.workers()); }

bool Injector::kill(int count) {
  std::vector<TrainerProcess*> all = world_.trainers();
  if (all.empty()) return false;
  for (TrainerProcess* first = trainer(); count > 0 && first != nullptr; --count) {
    first->kill();
    first = any(engine_, world_.trainers());
  }
  return true;
}

bool Injector::crash(TrainerProcess* trainer) {
  if (trainer == nullptr || !trainer->inside()) return false;
  world_.crash_injected();
  trainer->crash(SIGSEGV);
  return true;
}

bool Injector::fail() {
  TrainerProcess* victim = trainer();
  if (victim == nullptr) return false;
  world_.crash_injected();
  victim->fail();
  return true;
}

bool Injector::join_other() {
  const std::uint64_t number = engine_.below(100);
  world_.start_worker(str("other", number), true, number % 2 == 0 ? kOtherBuild : kOtherBits);
  world_.fault_lasts_until(engine_.now() + 3000);
  return true;
}

bool Injector::damage() {
  const auto committed = world_.disk().committed();
  if (committed.empty()) return false;
  committed.front().second->damaged = true;
  return true;
}

bool Injector::suspend(Process* process, Ms least, Ms most) {
  if (process == nullptr) return false;
  const Ms ms = engine_.between(least, most);
  process->suspend();
  engine_.after(ms, [process] { process->resume(); });
  world_.fault_lasts_until(engine_.now() + ms);
  return true;
}

bool Injector::suspend_all() {
  const Ms ms = engine_.between(1000, 60000);
  std::vector<Process*> all;
  for (const auto& process : world_.processes()) all.push_back(process.get());
  for (Process* process : all) process->suspend();
  engine_.after(ms, [all] {
    for (Process* process : all) process->resume();
  });
  world_.fault_lasts_until(engine_.now() + ms);
  return true;
}

bool Injector::hang() {
  TrainerProcess* victim = trainer();
  if (victim == nullptr) return false;
  victim->hang(engine_.chance(0.5) ? engine_.between(1000, 5000) : kForEver);
  return true;
}

bool Injector::flip_bit() {
  for (TrainerProcess* victim : world_.trainers()) {
    if (!victim->inside() || !victim->replica().valid ||
        victim->phase() != protocol::TrainerPhase::kComputing)
      continue;
    victim->flip_bit();
    world_.flipped();
    return true;
  }
  return false;
}

bool Injector::flap() {
  WorkerProcess* victim = worker();
  if (victim == nullptr) return false;
  const std::string host = victim->host();
  for (Ms at = 0; at <= 5000; at += 2500) {
    engine_.after(at, [&world = world_, host] {
      for (WorkerProcess* worker : world.workers()) {
        if (worker->host() == host) return worker->kill();
      }
    });
  }
  world_.fault_lasts_until(engine_.now() + 5000);
  return true;
}

bool Injector::lose_node() {
  WorkerProcess* victim = worker();
  if (victim == nullptr) return false;
  victim->lost_node = true;
  victim->kill();
  return true;
}

bool Injector::join(bool dies) {
  WorkerProcess& newcomer = world_.start_worker(str("joined", engine_.below(100)), true);
  if (dies) newcomer.after(engine_.between(100, 3000), [&newcomer] { newcomer.kill(); });
  world_.fault_lasts_until(engine_.now() + 3000);
  return true;
}

bool Injector::kill_coordinator() {
  CoordinatorProcess* coordinator = world_.coordinator();
  if (coordinator == nullptr) return false;
  coordinator->kill();
  return true;
}

bool Injector::replace_head() {
  Supervisor* old = world_.supervisor();
  CoordinatorProcess* coordinator = old->coordinator();
  const std::string host = old->host();
  if (coordinator == nullptr || !coordinator->listening() || old->stop_asked() || host.size() > 7)
    return false;
  // Most often at about the time when the workers give up on it.
  const Ms back = engine_.chance(0.6) ? engine_.between(29500, 32500) : engine_.between(31000, 60000);
  suspend(old, back, back);
  suspend(coordinator, back, back);
  world_.cut_off_head(host, true);
  engine_.after(back, [&world = world_, host] { world.cut_off_head(host, false); });
  world_.start_supervisor(str(host, "-again"), true);
  // Often another node notices the loss at about the same time, and both claim the next term.
  if (engine_.chance(0.5)) {
    const std::string rival = str(host, "-rival");
    engine_.after(engine_.between(0, 2000),
                  [&world = world_, rival] { world.start_supervisor(rival, true); });
  }
  return true;
}

bool Injector::second_coordinator() {
  if (world_.coordinator() == nullptr) return false;
  world_.start_coordinator(world_.supervisor()->host(), nullptr, false);
  return true;
}

bool Injector::break_connection() {
  WorkerProcess* victim = worker();
  if (victim == nullptr || victim->connection() == nullptr) return false;
  const auto learns = [this] {
    return engine_.chance(0.7) ? engine_.between(0, 2000) : engine_.between(5000, 12000);
  };
  const Ms worker_learns = learns(), coordinator_learns = learns();
  world_.network().lose(*victim->connection(), worker_learns, coordinator_learns);
  world_.fault_lasts_until(engine_.now() + std::max(worker_learns, coordinator_learns));
  return true;
}

bool Injector::partition(bool up, bool down) {
  WorkerProcess* victim = worker();
  if (victim == nullptr) return false;
  const Ms until = engine_.now() + engine_.between(300, 12000);
  if (up) world_.network().hold_up(victim->host(), until);
  if (down) world_.network().hold_down(victim->host(), until);
  world_.fault_lasts_until(until);
  return true;
}

bool Injector::data_link(bool broken) {
  const std::vector<WorkerProcess*> all = world_.workers();
  if (all.size() < 2) return false;
  const std::string a = all[engine_.below(all.size())]->name(), b = all[engine_.below(all.size())]->name();
  if (a == b) return false;
  const Ms ms = engine_.between(500, 30000);
  broken ? world_.links().break_off(a, b) : world_.links().block(a, b);
  engine_.after(ms, [&world = world_, a, b, broken] {
    broken ? world.links().mend(a, b) : world.links().unblock(a, b);
    world.meetings_look_again();
  });
  world_.meetings_look_again();
  world_.fault_lasts_until(engine_.now() + ms);
  return true;
}

bool Injector::disk_full() {
  const Ms until = engine_.now() + engine_.between(300, 4000);
  world_.disk().fill_until(until);
  world_.disk_is_full();
  world_.fault_lasts_until(until);
  return true;
}

bool Injector::slow_disk() {
  const Ms until = engine_.now() + engine_.between(300, 6000);
  // A write that takes longer than the limit for hangs, too.
  world_.disk().slow_until(until, engine_.chance(0.3) ? 15000 : 4000);
  world_.fault_lasts_until(until);
  return true;
}

bool Injector::storage_away() {
  const Ms ms = engine_.between(300, 20000);
  world_.disk().away_until(engine_.now() + ms);
  world_.storage_is_away(ms);
  world_.fault_lasts_until(engine_.now() + ms);
  return true;
}

bool Injector::clock_jump() {
  CoordinatorProcess* coordinator = world_.coordinator();
  const Process* victim = coordinator != nullptr && engine_.chance(0.4) ? coordinator : nullptr;
  if (victim == nullptr) victim = worker();
  if (victim == nullptr) return false;
  world_.clock_jumps(victim->host(), engine_.between(300, 60000));
  world_.fault_lasts_until(engine_.now() + 3000);
  return true;
}

bool Injector::stop(bool by_file) {
  world_.ask_stop(engine_.chance(0.5) ? 75 : 130, engine_.chance(0.3) ? engine_.between(20, 2000) : 0,
                  by_file);
  return true;
}

bool Injector::crash_again() {
  const bool one = crash(trainer());
  world_.crash_again(2);
  return one;
}

}  // namespace rekindle::sim
