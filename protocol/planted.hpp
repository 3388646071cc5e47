// Bugs that can be planted, to prove that the simulator finds them. In the programs that people run there are
// none: planted() is constant false there, and the branches vanish.
#pragma once

namespace rekindle::protocol {

enum class Bug {
  kNone,
  kNoGenerationCheck,        // messages of older generations are believed
  kNoTermCheck,              // a worker obeys older terms
  kHighestStepOffByOne,      // a generation starts one step behind what is held
  kUnparkedSource,           // a trainer that did not park for this abort is a source of state
  kHeldStepByControlThread,  // heartbeats change what a trainer is taken to hold
  kUpdateBeforeAllShards,
  kReportBeforeUpdate,
  kCutFlagNotOred,
  kStopLostWithCarrier,
  kCommitWithMissingShard,
  kReportBeforeFsync,
  kJoinCutDuringCheckpoint,
  kAdoptWithoutWaiting,
  kHangJudgesTheWaiting,
  kCrashesCountedPerTrainer,
  kBadHostUsesUpTheTries,  // of the others, before the first generation
  kSegmentReusedBeforeRead,
  kUpdateBeforeSnapshot,  // a shard is read from a state that has moved on
};

#ifdef REKINDLE_PLANTED_BUGS
extern Bug planted_bug;
inline bool planted(Bug bug) { return planted_bug == bug; }
#else
constexpr bool planted(Bug) { return false; }
#endif

}  // namespace rekindle::protocol
