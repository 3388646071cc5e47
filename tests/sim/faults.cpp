#include "faults.hpp"

#include <algorithm>
#include <csignal>

#include "base/text.hpp"
#include "coordinator.hpp"
#include "supervisor.hpp"
#include "trainer.hpp"
#include "worker.hpp"
#include "world.hpp"

namespace rekindle::sim {

namespace {

constexpr Ms kForEver = 1000000000;

template <class T>
T* any(Engine& engine, const std::vector<T*>& all) {
  return all.empty() ? nullptr : all[engine.below(all.size())];
}

class Injector {
 public:
  explicit Injector(World& world) : world_(world), engine_(world.engine()) {}

  TrainerProcess* trainer() {
    TrainerProcess* focus = world_.focus();
    if (focus != nullptr && focus->alive() && engine_.chance(0.7)) return focus;
    return any(engine_, world_.trainers());
  }
  WorkerProcess* worker() { return any(engine_, world_.workers()); }

  bool kill(int count) {
    std::vector<TrainerProcess*> all = world_.trainers();
    if (all.empty()) return false;
    for (TrainerProcess* first = trainer(); count > 0 && first != nullptr; --count) {
      first->kill();
      first = any(engine_, world_.trainers());
    }
    return true;
  }

  bool crash(TrainerProcess* trainer) {
    if (trainer == nullptr || !trainer->inside()) return false;
    world_.crash_injected();
    trainer->crash(SIGSEGV);
    return true;
  }

  bool fail() {
    TrainerProcess* victim = trainer();
    if (victim == nullptr) return false;
    world_.crash_injected();
    victim->fail();
    return true;
  }

  bool join_other() {
    const std::uint64_t number = engine_.below(100);
    world_.start_worker(str("other", number), true, number % 2 == 0 ? kOtherBuild : kOtherBits);
    world_.fault_lasts_until(engine_.now() + 3000);
    return true;
  }

  // The newest checkpoint: a flipped bit on storage.
  bool damage() {
    const auto committed = world_.disk().committed();
    if (committed.empty()) return false;
    committed.front().second->damaged = true;
    return true;
  }

  bool suspend(Process* process, Ms least, Ms most) {
    if (process == nullptr) return false;
    const Ms ms = engine_.between(least, most);
    process->suspend();
    engine_.after(ms, [process] { process->resume(); });
    world_.fault_lasts_until(engine_.now() + ms);
    return true;
  }

  bool suspend_all() {
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

  bool hang() {
    TrainerProcess* victim = trainer();
    if (victim == nullptr) return false;
    victim->hang(engine_.chance(0.5) ? engine_.between(1000, 5000) : kForEver);
    return true;
  }

  // Only where another replica can tell.
  bool flip_bit() {
    for (TrainerProcess* victim : world_.trainers()) {
      if (!victim->inside() || !victim->held().whole || victim->phase() != protocol::TrainerPhase::kComputing)
        continue;
      victim->flip_bit();
      world_.flipped();
      return true;
    }
    return false;
  }

  bool flap() {
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

  bool lose_node() {
    WorkerProcess* victim = worker();
    if (victim == nullptr) return false;
    victim->lost_node = true;
    victim->kill();
    return true;
  }

  bool join(bool dies) {
    WorkerProcess& newcomer = world_.start_worker(str("joined", engine_.below(100)), true);
    if (dies) newcomer.after(engine_.between(100, 3000), [&newcomer] { newcomer.kill(); });
    world_.fault_lasts_until(engine_.now() + 3000);
    return true;
  }

  bool kill_coordinator() {
    CoordinatorProcess* coordinator = world_.coordinator();
    if (coordinator == nullptr) return false;
    coordinator->kill();
    return true;
  }

  // The head node is lost from sight, another one takes the run over, and the old one comes back.
  bool replace_head() {
    Supervisor* old = world_.supervisor();
    CoordinatorProcess* coordinator = old->coordinator();
    const std::string host = old->host();
    if (coordinator == nullptr || !coordinator->listening() || old->stop_asked() || host.size() > 7)
      return false;
    // Most often when the workers are just about to leave it.
    const Ms back = engine_.chance(0.6) ? engine_.between(29500, 32500) : engine_.between(31000, 60000);
    suspend(old, back, back);
    suspend(coordinator, back, back);
    world_.cut_off_head(host, true);
    engine_.after(back, [&world = world_, host] { world.cut_off_head(host, false); });
    world_.start_supervisor(str(host, "-again"), true);
    return true;
  }

  bool second_coordinator() {
    if (world_.coordinator() == nullptr) return false;
    world_.start_coordinator(world_.supervisor()->host(), nullptr, false);
    return true;
  }

  bool break_connection() {
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

  bool partition(bool up, bool down) {
    WorkerProcess* victim = worker();
    if (victim == nullptr) return false;
    const Ms until = engine_.now() + engine_.between(300, 12000);
    if (up) world_.network().hold_up(victim->host(), until);
    if (down) world_.network().hold_down(victim->host(), until);
    world_.fault_lasts_until(until);
    return true;
  }

  bool data_link(bool broken) {
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

  bool disk_full() {
    const Ms until = engine_.now() + engine_.between(300, 4000);
    world_.disk().fill_until(until);
    world_.disk_is_full();
    world_.fault_lasts_until(until);
    return true;
  }

  bool slow_disk() {
    const Ms until = engine_.now() + engine_.between(300, 6000);
    world_.disk().slow_until(until);
    world_.fault_lasts_until(until);
    return true;
  }

  bool storage_away() {
    const Ms ms = engine_.between(300, 20000);
    world_.disk().away_until(engine_.now() + ms);
    world_.storage_is_away(ms);
    world_.fault_lasts_until(engine_.now() + ms);
    return true;
  }

  bool stop(bool by_file) {
    world_.ask_stop(engine_.chance(0.5) ? 75 : 130, engine_.chance(0.3) ? engine_.between(20, 2000) : 0,
                    by_file);
    return true;
  }

  // Two of them at the first exchange of the next generations.
  bool crash_again() {
    const bool one = crash(trainer());
    world_.crash_again(2);
    return one;
  }

 private:
  World& world_;
  Engine& engine_;
};

}  // namespace

const char* to_text(Fault fault) {
  constexpr const char* kNames[] = {"kill a trainer",
                                    "kill two trainers",
                                    "kill all trainers",
                                    "kill all but one",
                                    "crash a trainer",
                                    "crash two trainers",
                                    "crash again",
                                    "hang a trainer",
                                    "slow a trainer",
                                    "suspend a trainer",
                                    "flip a bit",
                                    "a trainer fails",
                                    "kill a worker",
                                    "flapping worker",
                                    "suspend a worker",
                                    "join",
                                    "join and die",
                                    "join of another kind",
                                    "lose a node",
                                    "kill the coordinator",
                                    "kill the coordinator and a trainer",
                                    "suspend the coordinator",
                                    "suspend all",
                                    "replace the head node",
                                    "second coordinator",
                                    "break a connection",
                                    "partition",
                                    "one-way partition",
                                    "block a data link",
                                    "break a data link",
                                    "disk full",
                                    "slow disk",
                                    "storage away",
                                    "damage a checkpoint",
                                    "stop",
                                    "stop file",
                                    "stop and join",
                                    "stop and kill"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(Fault::kCount));
  return kNames[static_cast<int>(fault)];
}

bool inject(World& world, Fault fault) {
  Injector injector(world);
  Engine& engine = world.engine();
  const int trainers = static_cast<int>(world.trainers().size());
  switch (fault) {
    case Fault::kKillTrainer:
      return injector.kill(1);
    case Fault::kKillTwoTrainers:
      return injector.kill(2);
    case Fault::kKillAllTrainers:
      return injector.kill(trainers);
    case Fault::kKillAllButOne:
      return injector.kill(trainers - 1);
    case Fault::kCrashTrainer:
      return injector.crash(injector.trainer());
    case Fault::kCrashTwoTrainers:
      return injector.crash(injector.trainer()) && (injector.crash(injector.trainer()), true);
    case Fault::kCrashAgain:
      return injector.crash_again();
    case Fault::kHangTrainer:
      return injector.hang();
    case Fault::kSlowTrainer:
      if (TrainerProcess* victim = injector.trainer())
        victim->slow_down(static_cast<int>(engine.between(3, 15)));
      return true;
    case Fault::kSuspendTrainer:
      return injector.suspend(injector.trainer(), 300, 12000);
    case Fault::kFlipBit:
      return injector.flip_bit();
    case Fault::kTrainerFails:
      return injector.fail();
    case Fault::kKillWorker:
      if (WorkerProcess* victim = injector.worker()) victim->kill();
      return true;
    case Fault::kFlappingWorker:
      return injector.flap();
    case Fault::kSuspendWorker:
      return injector.suspend(injector.worker(), 300, 12000);
    case Fault::kJoin:
      return injector.join(false);
    case Fault::kJoinAndDie:
      return injector.join(true);
    case Fault::kJoinOther:
      return injector.join_other();
    case Fault::kLoseNode:
      return injector.lose_node();
    case Fault::kKillCoordinator:
      return injector.kill_coordinator();
    case Fault::kKillCoordinatorAndTrainer:
      return injector.kill_coordinator() && injector.kill(1);
    case Fault::kSuspendCoordinator:
      return injector.suspend(world.coordinator(), 300, 20000);
    case Fault::kSuspendAll:
      return injector.suspend_all();
    case Fault::kReplaceHeadNode:
      return injector.replace_head();
    case Fault::kSecondCoordinator:
      return injector.second_coordinator();
    case Fault::kBreakConnection:
      return injector.break_connection();
    case Fault::kPartition:
      return injector.partition(true, true);
    case Fault::kPartitionOneWay:
      return engine.chance(0.5) ? injector.partition(true, false) : injector.partition(false, true);
    case Fault::kBlockDataLink:
      return injector.data_link(false);
    case Fault::kBreakDataLink:
      return injector.data_link(true);
    case Fault::kDiskFull:
      return injector.disk_full();
    case Fault::kSlowDisk:
      return injector.slow_disk();
    case Fault::kStorageAway:
      return injector.storage_away();
    case Fault::kDamageCheckpoint:
      return injector.damage();
    case Fault::kStop:
      return injector.stop(false);
    case Fault::kStopFile:
      return injector.stop(true);
    case Fault::kStopAndJoin:
      return injector.stop(false) && injector.join(false);
    case Fault::kStopAndKill:
      return injector.stop(false) && injector.kill(1);
    case Fault::kCount:
      break;
  }
  return false;
}

}  // namespace rekindle::sim
