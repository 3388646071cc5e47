#include "run.hpp"

#include <tuple>

#include "base/log.hpp"

namespace rekindle {
Bug planted_bug = Bug::kNone;
}

namespace rekindle::sim {

const NamedBug kBugs[30] = {
    {Bug::kNoGenerationCheck, "no-generation-check"},
    {Bug::kNoTermCheck, "no-term-check"},
    {Bug::kHighestStepOffByOne, "highest-step-off-by-one"},
    {Bug::kUnpausedSource, "unpaused-source"},
    {Bug::kHeldStepByControlThread, "held-step-by-control-thread"},
    {Bug::kUpdateBeforeAllShards, "update-before-all-shards"},
    {Bug::kReportBeforeUpdate, "report-before-update"},
    {Bug::kPauseFlagNotOred, "pause-flag-not-ored"},
    {Bug::kStopLostWithCarrier, "stop-lost-with-carrier"},
    {Bug::kCommitWithMissingShard, "commit-with-missing-shard"},
    {Bug::kReportBeforeFsync, "report-before-fsync"},
    {Bug::kJoinPauseDuringCheckpoint, "join-pause-during-checkpoint"},
    {Bug::kAdoptWithoutWaiting, "adopt-without-waiting"},
    {Bug::kHangJudgesTheWaiting, "hang-judges-the-waiting"},
    {Bug::kWritersDieInAnOutage, "writers-die-in-an-outage"},
    {Bug::kCrashesCountedPerTrainer, "crashes-counted-per-trainer"},
    {Bug::kFailuresOfNcclNotCounted, "failures-of-nccl-not-counted"},
    {Bug::kBadHostUsesUpTheTries, "bad-host-uses-up-the-tries"},
    {Bug::kSegmentReusedBeforeRead, "segment-reused-before-read"},
    {Bug::kNormOfOnePiece, "norm-of-one-piece"},
    {Bug::kSumsNotCheckedAfterUpdate, "sums-not-checked-after-update"},
    {Bug::kUpdateBeforeSnapshot, "update-before-snapshot"},
    {Bug::kClaimAfterLostRace, "claim-after-lost-race"},
    {Bug::kSilenceOfEarlierHolder, "silence-of-earlier-holder"},
    {Bug::kLostRaceCounts, "lost-race-counts"},
    {Bug::kCommitWithoutTermCheck, "commit-without-term-check"},
    {Bug::kTermCheckBeforeShards, "term-check-before-shards"},
    {Bug::kNoteWhenSuperseded, "note-when-superseded"},
    {Bug::kSweepWithoutTermCheck, "sweep-without-term-check"},
    {Bug::kNewestNotAwaited, "newest-not-awaited"},
};

Outcome run_plan(const Plan& plan, Coverage& coverage, std::ostream* transcript) {
  // The log of trainers is for operators; the transcript has the same information in virtual time.
  static const bool silent = (start_logging("sim", FilePath(), LogLevel::kNone), true);
  std::ignore = silent;
  World world(plan, coverage, transcript);
  return world.run();
}

Outcome run_schedule(std::uint64_t seed, Coverage& coverage, std::ostream* transcript) {
  return run_plan(make_plan(seed), coverage, transcript);
}

Totals run_schedules(std::uint64_t first, std::uint64_t stride, std::uint64_t count, Coverage& coverage) {
  Totals totals;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t seed = first + i * stride;
    const Outcome outcome = run_schedule(seed, coverage);
    ++totals.schedules;
    totals.steps += outcome.steps;
    totals.faults += static_cast<std::uint64_t>(outcome.faults);
    totals.events += outcome.events;
    totals.bits_unknown += outcome.bits_unknown ? 1 : 0;
    if (outcome.violation.empty()) continue;
    totals.failed_seed = seed;
    totals.violation = outcome.violation;
    break;
  }
  return totals;
}

}  // namespace rekindle::sim
