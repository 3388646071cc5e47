// What a coordinator is told, and what it wants done: its host (actors/coordinator_host) translates both.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "protocol/messages.hpp"

namespace rekindle::protocol {

using Time = std::chrono::milliseconds;                        // of the host's monotonic clock
using CheckpointKey = std::pair<std::uint64_t, GenerationId>;  // step first

// ---- events ----

struct WorkerRegistered {
  Registration registration;
};
struct WorkerBeatSeen {
  std::string worker;
  std::vector<TrainerBeat> trainers;  // the beats that its trainers gave since the worker's last one
};
struct WorkerLost {
  std::string worker, why;
};
struct TrainerSaid {
  std::string worker;
  FromTrainer message;
};
struct StopAsked {
  int exit_code = 75;
  std::string why;
  Time within{0};  // 0: no limit
};
struct CommitDone {
  GenerationId generation;
  std::uint64_t step = 0;
  std::string checkpoint;              // directory name
  std::string fingerprint;             // of its writers
  std::string error;                   // empty: committed
  std::vector<std::string> kept = {};  // the checkpoints that are there after the sweep; none: unknown
};
struct Swept {                    // what a Sweep has left
  std::vector<std::string> kept;  // checkpoints; none: unknown
};
struct Fenced {  // a higher term exists: this coordinator is history
  std::uint64_t by_term = 0;
};
struct Tick {};  // a few times a second
using Event = std::variant<WorkerRegistered, WorkerBeatSeen, WorkerLost, TrainerSaid, StopAsked, CommitDone,
                           Swept, Fenced, Tick>;

// ---- effects ----

struct SendTrainer {
  std::string worker, trainer;
  ToTrainer message;
};
struct OrderKill {
  std::string worker;
  KillTrainer kill;
};
struct DismissWorker {
  std::string worker;
  Dismiss dismiss;
};
struct AskToRegister {  // it speaks, but was declared lost: what it knows of its trainers has to be told
                        // again
  std::string worker;
};
struct Commit {  // write the manifest of a checkpoint whose shards are all durable; answer with CommitDone
  GenerationId generation;
  std::uint64_t step = 0;
  std::string digest, fingerprint, tensors;
  std::vector<std::string> shards;  // by rank
  std::vector<std::string> spared;  // checkpoints that no sweep may remove: what the run began with
};
struct Sweep {  // remove what nobody needs, now that `restored` was read whole; answer with Swept
  std::string restored;
  GenerationId generation;  // that went on from it: whatever older ones have not finished is dead
};
struct Abandon {  // remove what was written of a checkpoint that cannot be committed
  GenerationId generation;
  std::uint64_t step = 0;
};
struct SetAside {
  std::string checkpoint;
};
struct Rewind {  // the run goes on from `step`: records of later steps are void
  std::uint64_t step = 0;
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
struct Tell {  // a line for the person and the log
  std::string line;
};
struct Warn {
  std::string line;
};
struct Finish {  // the run's processes may go: exit with this
  int exit_code = 0;
  std::string line, hint;
  std::optional<std::uint64_t> stuck_at = {};  // the step that nobody gets past: name its samples
};
using Effect = std::variant<SendTrainer, OrderKill, DismissWorker, AskToRegister, Commit, Sweep, Abandon,
                            SetAside, Rewind, RecordStep, RecordEvaluation, ShowProgress, Tell, Warn, Finish>;

}  // namespace rekindle::protocol
