#include "faults.hpp"

#include <iterator>

#include "coordinator.hpp"
#include "injector.hpp"

namespace rekindle::sim {

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
                                    "a clock jumps",
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
    case Fault::kClockJump:
      return injector.clock_jump();
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
