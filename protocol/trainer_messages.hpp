// The messages between a trainer and the coordinator, which workers forward. The field names are JSON keys of
// the wire format: `parked`, `parks`, `holds` and `held_step` are its older words for a pause and for the
// state of a replica, and so are the names `parked` and `cut` in protocol/message_names.hpp.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "protocol/member_list.hpp"

// An absent value is encoded as null.
template <class T>
struct nlohmann::adl_serializer<std::optional<T>> {
  static void to_json(json& j, const std::optional<T>& value) { j = value ? json(*value) : json(nullptr); }
  static void from_json(const json& j, std::optional<T>& value) {
    value = j.is_null() ? std::nullopt : std::optional<T>(j.get<T>());
  }
};

namespace rekindle::protocol {

// Generation `number` of coordinator term `term`. A newer generation compares greater.
struct GenerationId {
  std::uint64_t term = 0, number = 0;
  friend auto operator<=>(const GenerationId&, const GenerationId&) = default;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GenerationId, term, number)
std::string to_text(const GenerationId& id);  // "t1.g2"

// ---- trainer to coordinator ----

// The trainer is warmed up: the model is built, memory is allocated, and the trainer listens for peers.
struct TrainerReady {
  std::string trainer, host, device, fingerprint;
  Address address;
  std::int64_t pid = 0;
  std::string machine = {};  // processor and library versions, for log lines
  double check_ms = 0;       // duration of the numeric handshake
  // The name of its GPU, and what differs between any two GPUs. Empty: it has none.
  std::string gpu = {}, gpu_identity = {};
  int gpus = 0;              // how many GPUs the trainer sees
  std::string no_nccl = {};  // why it cannot use NCCL; empty: it can, or has no GPU
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrainerReady, trainer, host, device, fingerprint, address, pid, machine,
                                   check_ms, gpu, gpu_identity, gpus, no_nccl)

// Means by the names that the task gives them, such as "accuracy".
using Metrics = std::map<std::string, double>;

// Rank 0 sends one after each step. `step` counts completed optimizer updates.
struct StepDone {
  GenerationId generation;
  std::uint64_t step = 0, epoch = 0;
  double loss = 0;
  Metrics metrics = {};
  double lr = 0, images_per_second = 0;
  double data_ms = 0, compute_ms = 0, exchange_ms = 0, update_ms = 0, checkpoint_ms = 0, step_ms = 0;
  int trainers = 0;  // trainers that took part in the step
  // The global norm before clipping; below 0: it was not computed (no --clip-norm), or is not finite.
  double gradient_norm = -1;
  bool voided = false;  // the step changed nothing, because the norm is not finite
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StepDone, generation, step, epoch, loss, metrics, lr, images_per_second,
                                   data_ms, compute_ms, exchange_ms, update_ms, checkpoint_ms, step_ms,
                                   trainers, gradient_norm, voided)

// The first source of a generation sends this before its first step: the steps of older generations that were
// never reported.
struct StepsDone {
  GenerationId generation;
  std::vector<StepDone> steps;  // in ascending order of step
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StepsDone, generation, steps)

struct Evaluated {  // sent by rank 0
  GenerationId generation;
  std::uint64_t step = 0, epoch = 0, count = 0;
  std::optional<double> loss = {};  // none if the loss of a test sample is not finite, or too large
  Metrics metrics = {};
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Evaluated, generation, step, epoch, count, loss, metrics)

// A sample that cannot be used is left out, in this process: the next readable one takes its place.
struct SampleSkipped {
  std::string why;  // names the sample
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SampleSkipped, why)

// The trainer begins to write its shard: ShardWritten or ShardFailed follows. `parks`: not in the background.
struct ShardBegun {
  GenerationId generation;
  std::string trainer;
  std::uint64_t step = 0;
  bool parks = false;  // the step loop waits for the write and pauses afterwards
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ShardBegun, generation, trainer, step, parks)

// The shard is durable under its final name.
struct ShardWritten {
  GenerationId generation;
  std::string trainer;
  std::uint64_t step = 0;
  int rank = 0;
  std::string shard;    // checkpoint::ShardEntry as JSON
  std::string tensors;  // rank 0: the state's tensor list as JSON; others: empty
  std::string digest;
  double write_ms = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ShardWritten, generation, trainer, step, rank, shard, tensors, digest,
                                   write_ms)

struct ShardFailed {
  GenerationId generation;
  std::string trainer;
  std::uint64_t step = 0;
  std::string why;
  bool changed = false;  // the state does not match the hash taken after the update: it must not be used
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ShardFailed, generation, trainer, step, why, changed)

enum class PauseReason {
  kAgreed,             // all ranks agreed to pause after the same step (PauseForJoin or Stop)
  kFinished,           // the last step of the run is done
  kAborted,            // the coordinator sent Abort, a newer Start or Quit
  kRestoreFailed,      // the checkpoint is damaged
  kUnreadable,         // the checkpoint could not be restored; the checkpoint itself may be intact
  kUnsuitable,         // the checkpoint is intact, but of another format or model
  kExchangeFailed,     // a peer died, or its data link broke
  kDataAltered,        // data from a peer were changed on the network
  kSamplesUnusable,    // samples of the step, or of an evaluation, cannot be used: damaged or changed files
  kSamplesUnreadable,  // samples could not be read for --data-wait: the storage fails, or a file is missing
  kNonFinite,          // the loss is NaN or infinite
  kStatesDiffer,       // the state hashes of the ranks are not equal
  kRefused,            // Start names this trainer as a source, but its state is of another step or invalid
};
NLOHMANN_JSON_SERIALIZE_ENUM(PauseReason, {{PauseReason::kAgreed, "cut"},
                                           {PauseReason::kFinished, "finished"},
                                           {PauseReason::kAborted, "aborted"},
                                           {PauseReason::kRestoreFailed, "restore-failed"},
                                           {PauseReason::kUnreadable, "unreadable"},
                                           {PauseReason::kUnsuitable, "unsuitable"},
                                           {PauseReason::kExchangeFailed, "exchange-failed"},
                                           {PauseReason::kDataAltered, "data-altered"},
                                           {PauseReason::kSamplesUnusable, "samples-unusable"},
                                           {PauseReason::kSamplesUnreadable, "samples-unreadable"},
                                           {PauseReason::kNonFinite, "non-finite"},
                                           {PauseReason::kStatesDiffer, "states-differ"},
                                           {PauseReason::kRefused, "refused"}})

// The step loop has paused. No thread changes the state until the next Start.
struct Paused {
  GenerationId generation;
  std::string trainer;
  bool holds = false;           // whether the state is valid, that is of one completed step
  std::uint64_t held_step = 0;  // the step of the state, if `holds`
  PauseReason reason = PauseReason::kAborted;
  int peer = -1;               // exchange-failed, data-altered: the rank of the peer, or -1 if unknown
  std::vector<int> differing;  // states-differ: the ranks in the minority; empty if no state has a majority
  std::string detail;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Paused, generation, trainer, holds, held_step, reason, peer, differing,
                                   detail)

enum class TrainerPhase : std::uint8_t {
  kStarting,
  kIdle,  // warmed up, or paused
  kConnecting,
  kCopying,
  kRestoring,
  kReading,  // samples do not come: it waits for them
  kComputing,
  kExchanging,
  kApplying,
  kEvaluating,
  kWriting,
};
NLOHMANN_JSON_SERIALIZE_ENUM(TrainerPhase, {{TrainerPhase::kStarting, "starting"},
                                            {TrainerPhase::kIdle, "idle"},
                                            {TrainerPhase::kConnecting, "connecting"},
                                            {TrainerPhase::kCopying, "copying"},
                                            {TrainerPhase::kRestoring, "restoring"},
                                            {TrainerPhase::kReading, "reading"},
                                            {TrainerPhase::kComputing, "computing"},
                                            {TrainerPhase::kExchanging, "exchanging"},
                                            {TrainerPhase::kApplying, "applying"},
                                            {TrainerPhase::kEvaluating, "evaluating"},
                                            {TrainerPhase::kWriting, "writing"}})
std::string to_text(TrainerPhase phase);

// What the driver says about the trainer's GPU, with all processes that use it. For status output only.
struct GpuUse {
  std::uint64_t used_bytes = 0, total_bytes = 0;  // total_bytes 0: both are unknown
  int busy_percent = -1;                          // below 0: unknown
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GpuUse, used_bytes, total_bytes, busy_percent)

struct ProcessUse {
  std::uint64_t cpu_percent = 0;   // of one core, since the heartbeat before
  std::uint64_t memory_bytes = 0;  // resident; shared pages count fully
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProcessUse, cpu_percent, memory_bytes)

struct TrainerBeat {  // sent every 500 ms by the control thread
  std::string trainer;
  TrainerPhase phase = TrainerPhase::kStarting;
  GenerationId generation;     // the generation that the step loop entered last
  std::uint64_t step = 0;      // for status output only; Paused reports the step of the state
  std::uint64_t progress = 0;  // grows with each phase, micro-batch and chunk of the step loop
  int waiting_for = -1;        // the rank that this trainer waits for; its own: NCCL's; -1: none
  std::uint64_t peak_pss_bytes = 0, blocks_written = 0;  // blocks of shards, since its start
  ProcessUse use = {};
  GpuUse gpu = {};
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrainerBeat, trainer, phase, generation, step, progress, waiting_for,
                                   peak_pss_bytes, blocks_written, use, gpu)

// The trainer cannot continue and is about to exit: bad configuration, bad data, or no memory.
struct TrainerFailed {
  std::string trainer;
  int exit_code = 70;
  std::string what, hint;
  bool only_here = false;  // other trainers of the machine may work: it has no usable GPU for this one
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrainerFailed, trainer, exit_code, what, hint, only_here)

struct TrainerExited {  // sent by the worker of the trainer
  std::string trainer;
  bool by_signal = false;
  int code = 0;  // exit status, or the signal's number
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrainerExited, trainer, by_signal, code)

using FromTrainer =
    std::variant<TrainerReady, StepDone, Evaluated, ShardWritten, ShardFailed, Paused, TrainerBeat,
                 TrainerFailed, TrainerExited, StepsDone, ShardBegun, SampleSkipped>;

// ---- coordinator to trainer ----

struct Start {
  GenerationId generation;
  int rank = 0;
  MemberList members;  // by rank; encoded after the JSON line (protocol/wire.cpp)
  std::string secret;
  std::uint64_t step = 0;      // the step of the state from which the generation starts
  std::uint64_t recorded = 0;  // the newest step that was reported to a coordinator
  // Ranks that have this state; the other ranks copy it. Empty: all ranks restore it.
  std::vector<int> sources;
  // Directory name of the checkpoint to restore if `sources` is empty. Empty: initial values.
  std::string restore;
  // The last checkpoint that was restored completely. The next coordinator reads it from here.
  std::string verified;
  std::uint64_t unsaved_ms = 0;  // time since the last checkpoint began
  bool saved = false;            // a committed checkpoint has the state of `step`
  bool evaluate = false;         // the evaluation of the state of `step` is still to be done
  bool stop = false;             // do not train: write the state, unless it is saved, and pause
  bool without_nccl = false;     // gradients go through host memory: NCCL has failed
};
void to_json(nlohmann::json& json, const Start& start);  // `members` is not in the JSON
void from_json(const nlohmann::json& json, Start& start);

// Pause after the step in flight and write a checkpoint.
struct Stop {
  GenerationId generation;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Stop, generation)

// Pause after the step in flight, so that new trainers can join.
struct PauseForJoin {
  GenerationId generation;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PauseForJoin, generation)

// Write a checkpoint after the step in flight, because the last one lost a writer.
struct Save {
  GenerationId generation;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Save, generation)

// Drop the step in flight and pause.
struct Abort {
  GenerationId generation;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Abort, generation)

// Exit: the run is over.
struct Quit {
  int reserved = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Quit, reserved)

using ToTrainer = std::variant<Start, Stop, PauseForJoin, Abort, Quit, Save>;

}  // namespace rekindle::protocol
