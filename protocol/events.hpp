// The inputs (events) and outputs (effects) of the coordinator's state machine. Its host
// (actors/coordinator_host) translates both.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "protocol/messages.hpp"

namespace rekindle::protocol {

using CheckpointKey = std::pair<std::uint64_t, GenerationId>;  // step first

// ---- events ----

struct WorkerRegistered {
  Registration registration;
};
struct WorkerBeatSeen {
  std::string worker;
  std::vector<TrainerBeat> trainers;  // the heartbeats of its trainers since the last beat of the worker
};
struct WorkerLost {
  std::string worker, why;
};
struct TrainerReported {
  std::string worker;
  FromTrainer message;
};
struct CommitDone {
  GenerationId generation;
  std::uint64_t step = 0;
  std::string checkpoint;              // directory name
  std::string fingerprint;             // fingerprint of the trainers that wrote it
  std::string error;                   // empty: the checkpoint is committed
  std::vector<std::string> kept = {};  // checkpoints that exist after the sweep; empty: unknown
};
// The result of a Sweep.
struct Swept {
  std::vector<std::string> kept;  // checkpoints that still exist; empty: unknown
};
// A higher term exists: another coordinator has replaced this one.
struct Fenced {
  std::uint64_t by_term = 0;
};
struct Tick {};  // a few times a second
using Event = std::variant<WorkerRegistered, WorkerBeatSeen, WorkerLost, TrainerReported, StopRun, CommitDone,
                           Swept, Fenced, Tick>;

// ---- effects ----

struct SendTrainer {
  std::string worker, trainer;
  ToTrainer message;
};
// Write the manifest of a checkpoint whose shards are all durable. CommitDone is the answer.
struct Commit {
  GenerationId generation;
  std::uint64_t step = 0;
  std::string digest, fingerprint, tensors;
  std::vector<std::string> shards;  // by rank
  // Checkpoints that no sweep may remove: the last verified and the restored one.
  std::vector<std::string> pinned;
};
// Remove checkpoints that are no longer needed, now that `restored` was read completely. Swept is the answer.
struct Sweep {
  std::string restored;
  // The generation that continued from `restored`: unfinished checkpoints of older generations are removed.
  GenerationId generation;
};
// Remove the files of a checkpoint that cannot be committed.
struct Abandon {
  GenerationId generation;
  std::uint64_t step = 0;
};
struct SetAside {
  std::string checkpoint;
};
// The run continues from `step`: records of later steps, up to `newest`, are removed.
struct Rewind {
  std::uint64_t step = 0, newest = 0;
};
struct RecordStep {
  StepDone done;
};
struct RecordEvaluation {
  Evaluated evaluated;
};
struct ShowProgress {
  Progress progress;
};
// A trainer of the generation is gone.
struct RecordLoss {
  std::string trainer, host, why;
};
// A line for the terminal and the log.
struct Info {
  std::string line;
};
enum class WarnAbout { kOther, kTooFewTrainers, kStatesDiffer };
struct Warn {
  std::string line;
  WarnAbout about = WarnAbout::kOther;
};
enum class EndCause {
  kOther,
  kTooFewTrainers,
  kSamplesUnusable,
  kSamplesUnreadable,
  kNobodyCame,  // no trainer, in the gather time
  kNotStarted,  // trainers end before training begins
  kReported,    // by a trainer, before training begins
  kCrashes,     // again and again at one step
  kHangs,
  kExchangeFails,
  kNotFinite,
  kNotWritten,   // the state at the end
  kNotRestored,  // a checkpoint
};
// Whether a later attempt may not meet the same: the storage or another machine was the cause.
inline bool may_pass(EndCause cause) {
  return cause == EndCause::kHangs || cause == EndCause::kExchangeFails || cause == EndCause::kNotWritten ||
         cause == EndCause::kNotRestored;
}

// All processes of the run may exit, with this result.
struct Finish {
  int exit_code = 0;
  std::string line, hint;
  EndCause cause = EndCause::kOther;
  // The step at which the run is stuck: its samples are named in the output.
  std::optional<std::uint64_t> stuck_at = {};
};
using Effect =
    std::variant<SendTrainer, KillTrainer, Dismiss, RegisterAgain, Commit, Sweep, Abandon, SetAside, Rewind,
                 RecordStep, RecordEvaluation, RecordLoss, ShowProgress, Info, Warn, Finish>;

}  // namespace rekindle::protocol
