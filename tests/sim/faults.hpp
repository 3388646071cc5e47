// Faults: which, and when. At a moment, or when a process comes to a phase of the protocol.
#pragma once

#include <cstdint>
#include <optional>

#include "engine.hpp"
#include "protocol/coordinator.hpp"

namespace rekindle::sim {

class World;

enum class Fault {
  kKillTrainer,
  kKillTwoTrainers,
  kKillAllTrainers,
  kKillAllButOne,
  kCrashTrainer,      // by itself: SIGSEGV
  kCrashTwoTrainers,  // in one generation
  kCrashAgain,        // whoever comes to this step, twice in a row, two trainers each time
  kHangTrainer,
  kSlowTrainer,
  kSuspendTrainer,
  kFlipBit,
  kTrainerFails,
  kKillWorker,
  kFlappingWorker,
  kSuspendWorker,
  kJoin,
  kJoinAndDie,
  kJoinOther,  // another build, or a machine that computes other bits: refused
  kLoseNode,   // without a word
  kKillCoordinator,
  kKillCoordinatorAndTrainer,
  kSuspendCoordinator,
  kSuspendAll,
  kReplaceHeadNode,  // the old one comes back
  kSecondCoordinator,
  kBreakConnection,
  kPartition,
  kPartitionOneWay,
  kBlockDataLink,
  kBreakDataLink,
  kDiskFull,
  kSlowDisk,
  kStorageAway,  // every call fails for a while
  kDamageCheckpoint,
  kStop,
  kStopFile,
  kStopAndJoin,
  kStopAndKill,
  kCount,
};
const char* to_text(Fault fault);

struct PlannedFault {
  Fault fault = Fault::kKillTrainer;
  Ms at = 0;  // or, with a trigger, this long after it
  std::optional<protocol::TrainerPhase> trainer_phase;
  std::optional<protocol::Phase> coordinator_phase;
  int nth = 1;  // the how manieth time that somebody comes to the phase
};

// Makes it happen now. False: there is nobody that it could happen to.
bool inject(World& world, Fault fault);

}  // namespace rekindle::sim
