// Bugs that a test build can enable, to prove that the simulator finds them. In normal builds planted() is
// constant false, and the compiler removes the branches. The list is here because each module has such bugs.
#pragma once

namespace rekindle {

enum class Bug {
  kNone,
  kNoGenerationCheck,        // messages of older generations are accepted
  kNoTermCheck,              // a worker accepts orders of older terms
  kHighestStepOffByOne,      // a generation starts one step before the state of its sources
  kUnpausedSource,           // a trainer that has not paused for this abort is a source of state
  kHeldStepByControlThread,  // heartbeats change the step that a paused trainer has reported
  kUpdateBeforeAllShards,
  kReportBeforeUpdate,
  kPauseFlagNotOred,
  kStopLostWithCarrier,
  kCommitWithMissingShard,
  kReportBeforeFsync,
  kJoinPauseDuringCheckpoint,
  kAdoptWithoutWaiting,
  kHangJudgesTheWaiting,
  kWritersDieInAnOutage,
  kCrashesCountedPerTrainer,
  kFailuresOfNcclNotCounted,
  kBadHostUsesUpTheTries,  // also the tries of other hosts, before the first generation
  kSegmentReusedBeforeRead,
  kSumsNotCheckedAfterUpdate,  // by a trainer whose peers continued without it
  kNormOfOnePiece,             // the gradient's norm depends on the number of trainers
  kUpdateBeforeSnapshot,       // a shard is read from a state that an update has changed
  // Found only if hosts see each other's new files late:
  kClaimAfterLostRace,      // a claimant that lost the race for a term claims the next term without a look
  kSilenceOfEarlierHolder,  // the silence of one holder counts for the holder of the next term
  kLostRaceCounts,          // a claimant takes a term for its own although another process created the claim
  kCommitWithoutTermCheck,
  kTermCheckBeforeShards,  // the newest term is read before the wait for the shards, not after it
  kNoteWhenSuperseded,     // the file `newest` is written without a look for a higher term
  kSweepWithoutTermCheck,
  kNewestNotAwaited,  // a new attempt does not wait until the newest checkpoint can be seen
};

#ifdef REKINDLE_PLANTED_BUGS
extern Bug planted_bug;
inline bool planted(Bug bug) { return planted_bug == bug; }
#else
constexpr bool planted(Bug) { return false; }
#endif

}  // namespace rekindle
