// The faults and their triggers: a time, or the moment when a process enters a phase of the protocol.
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
  kCrashTrainer,      // SIGSEGV, not a kill from outside
  kCrashTwoTrainers,  // in one generation
  kCrashAgain,        // crashes two trainers in the exchange of two further generations
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
  kLoseNode,   // no connection is closed
  kKillCoordinator,
  kKillCoordinatorAndTrainer,
  kSuspendCoordinator,
  kSuspendAll,
  kReplaceHeadNode,  // the old head node comes back
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
  kClockJump,
  kStop,
  kStopFile,
  kStopAndJoin,
  kStopAndKill,
  kCount,
};
const char* to_text(Fault fault);

struct PlannedFault {
  Fault fault = Fault::kKillTrainer;
  Ms at = 0;  // time of the fault; with a trigger, the delay after it
  std::optional<protocol::TrainerPhase> trainer_phase;
  std::optional<protocol::Phase> coordinator_phase;
  int nth = 1;  // the trigger is the nth time that a process enters the phase
};

// Injects the fault now. False if no process can have this fault.
bool inject(World& world, Fault fault);

}  // namespace rekindle::sim
