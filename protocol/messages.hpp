// Every message between trainers and the coordinator (workers pass them on), and between the coordinator and
// its supervisor. Named structs; what belongs to a generation carries its number.
#pragma once

#include <compare>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "protocol/member_list.hpp"

// An absent value is null.
template <class T>
struct nlohmann::adl_serializer<std::optional<T>> {
  static void to_json(json& j, const std::optional<T>& value) { j = value ? json(*value) : json(nullptr); }
  static void from_json(const json& j, std::optional<T>& value) {
    value = j.is_null() ? std::nullopt : std::optional<T>(j.get<T>());
  }
};

namespace rekindle::protocol {

// A membership of trainers: number n of term t. Newer compares greater.
struct GenerationId {
  std::uint64_t term = 0, number = 0;
  friend auto operator<=>(const GenerationId&, const GenerationId&) = default;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GenerationId, term, number)
std::string to_text(const GenerationId& id);  // "t1.g2"

// ---- trainer to coordinator ----

struct TrainerReady {  // warmed up: model built, memory there, listening
  std::string trainer, host, device, fingerprint;
  Address address;
  std::int64_t pid = 0;
  std::string machine = {};  // processor and library versions, for people
  double check_ms = 0;       // that the numeric handshake took
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrainerReady, trainer, host, device, fingerprint, address, pid, machine,
                                   check_ms)

struct StepDone {  // from rank 0, one a step; `step` counts completed updates
  GenerationId generation;
  std::uint64_t step = 0, epoch = 0;
  double loss = 0, accuracy = 0, lr = 0, images_per_second = 0;
  double data_ms = 0, compute_ms = 0, exchange_ms = 0, update_ms = 0, checkpoint_ms = 0, step_ms = 0;
  int trainers = 0;  // that made it
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StepDone, generation, step, epoch, loss, accuracy, lr, images_per_second,
                                   data_ms, compute_ms, exchange_ms, update_ms, checkpoint_ms, step_ms,
                                   trainers)

struct StepsDone {  // from the first source, first in a generation: steps of older ones that were never
                    // reported
  GenerationId generation;
  std::vector<StepDone> steps;  // in order
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StepsDone, generation, steps)

struct Evaluated {  // from rank 0
  GenerationId generation;
  std::uint64_t step = 0, epoch = 0, count = 0;
  double loss = 0, accuracy = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Evaluated, generation, step, epoch, count, loss, accuracy)

struct ShardBegun {  // from now on it writes its shard, beside whatever else it does; one of the next two
                     // follows
  GenerationId generation;
  std::string trainer;
  std::uint64_t step = 0;
  bool parks = false;  // it does nothing else meanwhile, and parks then
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ShardBegun, generation, trainer, step, parks)

struct ShardWritten {  // durable under its final name
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
  bool changed = false;  // its state is not what it was when it was hashed: nothing is to be made of it
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ShardFailed, generation, trainer, step, why, changed)

enum class ParkReason {
  kCut,             // as agreed with the other ranks
  kFinished,        // the last step is done
  kAborted,         // told to
  kRestoreFailed,   // the checkpoint is damaged
  kUnreadable,      // the checkpoint could not be restored: that says nothing of it
  kUnsuitable,      // the checkpoint is whole, and of another format or model
  kExchangeFailed,  // a peer died or broke off
  kDataAltered,     // the data of a peer were changed on the network
  kNonFinite,       // the loss is not a number
  kStatesDiffer,    // the ranks' state hashes are not alike
  kRefused,         // Start names another step than the one that is held
};
NLOHMANN_JSON_SERIALIZE_ENUM(ParkReason, {{ParkReason::kCut, "cut"},
                                          {ParkReason::kFinished, "finished"},
                                          {ParkReason::kAborted, "aborted"},
                                          {ParkReason::kRestoreFailed, "restore-failed"},
                                          {ParkReason::kUnreadable, "unreadable"},
                                          {ParkReason::kUnsuitable, "unsuitable"},
                                          {ParkReason::kExchangeFailed, "exchange-failed"},
                                          {ParkReason::kDataAltered, "data-altered"},
                                          {ParkReason::kNonFinite, "non-finite"},
                                          {ParkReason::kStatesDiffer, "states-differ"},
                                          {ParkReason::kRefused, "refused"}})

struct Parked {  // the step loop is at its park point, and nobody touches the state
  GenerationId generation;
  std::string trainer;
  bool holds = false;           // whether it holds a whole step
  std::uint64_t held_step = 0;  // which
  ParkReason reason = ParkReason::kAborted;
  int peer = -1;               // exchange-failed, data-altered: the rank at the other end, if known
  std::vector<int> differing;  // states-differ: the ranks in the minority; none if there is no majority
  std::string detail;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Parked, generation, trainer, holds, held_step, reason, peer, differing,
                                   detail)

enum class TrainerPhase : std::uint8_t {
  kStarting,
  kIdle,  // warmed up or parked
  kConnecting,
  kCopying,
  kRestoring,
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
                                            {TrainerPhase::kComputing, "computing"},
                                            {TrainerPhase::kExchanging, "exchanging"},
                                            {TrainerPhase::kApplying, "applying"},
                                            {TrainerPhase::kEvaluating, "evaluating"},
                                            {TrainerPhase::kWriting, "writing"}})
std::string to_text(TrainerPhase phase);

struct TrainerBeat {  // every 500 ms, from the control thread
  std::string trainer;
  TrainerPhase phase = TrainerPhase::kStarting;
  GenerationId generation;     // the newest that it was started in
  std::uint64_t step = 0;      // for people; what is held is told by Parked alone
  std::uint64_t progress = 0;  // grows whenever the step loop gets on (a phase, a micro-batch, a chunk)
  int waiting_for = -1;        // the rank that it is waiting for
  std::uint64_t peak_pss_bytes = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrainerBeat, trainer, phase, generation, step, progress, waiting_for,
                                   peak_pss_bytes)

struct TrainerFailed {  // it cannot go on and is about to exit: configuration, data, memory
  std::string trainer;
  int exit_code = 70;
  std::string what, hint;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrainerFailed, trainer, exit_code, what, hint)

struct TrainerExited {  // from its worker
  std::string trainer;
  bool by_signal = false;
  int code = 0;  // exit status, or the signal's number
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrainerExited, trainer, by_signal, code)

using FromTrainer = std::variant<TrainerReady, StepDone, Evaluated, ShardWritten, ShardFailed, Parked,
                                 TrainerBeat, TrainerFailed, TrainerExited, StepsDone, ShardBegun>;

// ---- coordinator to trainer ----

struct Start {
  GenerationId generation;
  int rank = 0;
  MemberList members;  // by rank; travels beside the rest (protocol/wire.cpp)
  std::string secret;
  std::uint64_t step = 0;        // the state to start from
  std::uint64_t recorded = 0;    // the newest step that was reported to the coordinator
  std::vector<int> sources;      // ranks that hold it; the others copy it from them. None: all restore it
  std::string restore;           // without sources: the checkpoint's directory name; empty: initial values
  std::string verified;          // the last checkpoint that was restored whole: for whoever coordinates next
  std::uint64_t unsaved_ms = 0;  // since the last checkpoint began
  bool saved = false;            // a committed checkpoint holds the state at `step`
  bool evaluate = false;         // the evaluation of the state at `step` is still missing
  bool stop = false;             // do not train: write the state, unless it is saved, and park
};
void to_json(nlohmann::json& json, const Start& start);  // without the members
void from_json(const nlohmann::json& json, Start& start);

struct Stop {  // cut after the step in flight, write a checkpoint, park
  GenerationId generation;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Stop, generation)

struct Cut {  // cut after the step in flight and park: others want to join
  GenerationId generation;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Cut, generation)

struct Save {  // write a checkpoint when the step in flight is done: the last one was lost with a writer
  GenerationId generation;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Save, generation)

struct Abort {  // give up the step in flight and park
  GenerationId generation;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Abort, generation)

struct Quit {  // exit; the run is over
  int reserved = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Quit, reserved)

using ToTrainer = std::variant<Start, Stop, Cut, Abort, Quit, Save>;

// ---- worker to coordinator ----

// All that a coordinator that knows nothing needs to know of a trainer.
struct TrainerState {
  TrainerReady ready;
  std::optional<Start> started;  // the newest generation that it was sent into
  std::optional<Parked> parked;  // its last word about that generation
  TrainerBeat beat;
  std::vector<ShardWritten> written;  // of its newest checkpoint, which may not be committed yet
  std::vector<ShardFailed> failed;    // its newest, and those whose state has changed in memory
  std::optional<ShardBegun> writing;  // begun, and not finished
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrainerState, ready, started, parked, beat, written, failed, writing)

struct Registration {  // the first message on each connection
  std::string worker, host, build;
  int slots = 1;                       // how many trainers it keeps
  std::vector<TrainerState> trainers;  // those that are warmed up
  bool joined = false;                 // a helper from outside: it may be refused, and the run goes on
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Registration, worker, host, build, slots, trainers, joined)

// ---- coordinator to worker ----

struct ForTrainer {
  std::string trainer;
  ToTrainer message;
};
struct KillTrainer {  // it hangs, or belongs to a generation that is gone; its worker starts another
  std::string trainer, why;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(KillTrainer, trainer, why)

struct Dismiss {  // the run is over for this worker: it ends its trainers and exits
  int exit_code = 0;
  std::string why;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Dismiss, exit_code, why)

// ---- coordinator and supervisor ----

// The exit code of a coordinator that was started in place of another one and cannot listen.
inline constexpr int kCannotListen = 4;

struct CoordinatorUp {
  std::uint64_t term = 0, attempt = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CoordinatorUp, term, attempt)

struct CoordinatorBeat {  // once a second: it is alive and its queue moves
  std::uint64_t term = 0;
  bool running = false;  // a generation is at work
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CoordinatorBeat, term, running)

struct Say {  // a line for the person who started the run
  std::string line;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Say, line)

struct Progress {
  std::uint64_t step = 0, steps = 0, epoch = 0;
  double loss = 0, images_per_second = 0, seconds_left = 0;
  int trainers = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Progress, step, steps, epoch, loss, images_per_second, seconds_left,
                                   trainers)

struct Ending {  // the state is durable, or will not be; what is left is that the trainers go
  int exit_code = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Ending, exit_code)

struct Ended {
  int exit_code = 0;
  std::string line;  // what to tell; an error line when the exit code says so
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Ended, exit_code, line)

using ToSupervisor = std::variant<CoordinatorUp, CoordinatorBeat, Say, Progress, Ending, Ended>;

struct StopRun {
  int exit_code = 75;
  std::string why;             // "SIGUSR1"
  std::int64_t within_ms = 0;  // the state must be durable by then: a step that takes longer is given up.
                               // 0: no limit
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StopRun, exit_code, why, within_ms)

struct WorkerDied {  // the supervisor saw a worker process end
  std::string worker;
  bool by_signal = false;
  int code = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WorkerDied, worker, by_signal, code)

using ToCoordinator = std::variant<StopRun, WorkerDied>;

}  // namespace rekindle::protocol
