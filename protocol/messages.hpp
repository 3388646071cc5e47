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

namespace rekindle::protocol {

// A membership of trainers: number n of term t. Newer compares greater.
struct GenerationId {
  std::uint64_t term = 0, number = 0;
  friend auto operator<=>(const GenerationId&, const GenerationId&) = default;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GenerationId, term, number)
std::string to_text(const GenerationId& id);  // "t1.g2"

// Where peers reach a trainer; the exchange's endpoint as plain data.
struct Address {
  std::string host, address, nonce;
  std::int64_t pid = 0;
  int control_fd = -1;
  std::uint16_t port = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Address, host, address, nonce, pid, control_fd, port)

// ---- trainer to coordinator ----

struct TrainerReady {  // warmed up: model built, memory there, listening
  std::string trainer, host, device, fingerprint;
  Address address;
  std::int64_t pid = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrainerReady, trainer, host, device, fingerprint, address, pid)

struct StepDone {  // from rank 0, one a step; `step` counts completed updates
  GenerationId generation;
  std::uint64_t step = 0, epoch = 0;
  double loss = 0, accuracy = 0, lr = 0, images_per_second = 0;
  double data_ms = 0, compute_ms = 0, exchange_ms = 0, update_ms = 0, step_ms = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StepDone, generation, step, epoch, loss, accuracy, lr, images_per_second,
                                   data_ms, compute_ms, exchange_ms, update_ms, step_ms)

struct Evaluated {  // from rank 0
  GenerationId generation;
  std::uint64_t step = 0, epoch = 0, count = 0;
  double loss = 0, accuracy = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Evaluated, generation, step, epoch, count, loss, accuracy)

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
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ShardFailed, generation, trainer, step, why)

enum class ParkReason { kCut, kFinished, kAborted, kRestoreFailed, kExchangeFailed, kNonFinite };
NLOHMANN_JSON_SERIALIZE_ENUM(ParkReason, {{ParkReason::kCut, "cut"},
                                          {ParkReason::kFinished, "finished"},
                                          {ParkReason::kAborted, "aborted"},
                                          {ParkReason::kRestoreFailed, "restore-failed"},
                                          {ParkReason::kExchangeFailed, "exchange-failed"},
                                          {ParkReason::kNonFinite, "non-finite"}})

struct Parked {  // the step loop is at its park point, and nobody touches the state
  GenerationId generation;
  std::string trainer;
  bool holds = false;           // whether it holds a whole step
  std::uint64_t held_step = 0;  // which
  ParkReason reason = ParkReason::kAborted;
  int peer = -1;  // exchange-failed: the rank at fault, if known
  std::string detail;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Parked, generation, trainer, holds, held_step, reason, peer, detail)

struct TrainerBeat {  // every 500 ms, from the control thread
  std::string trainer, phase;
  GenerationId generation;
  std::uint64_t step = 0, peak_pss_bytes = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrainerBeat, trainer, phase, generation, step, peak_pss_bytes)

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
                                 TrainerBeat, TrainerFailed, TrainerExited>;

// ---- coordinator to trainer ----

struct Start {
  GenerationId generation;
  int rank = 0;
  std::vector<Address> members;  // by rank
  std::string secret;
  std::uint64_t step = 0;  // the state to start from
  std::string restore;     // checkpoint directory name; empty: initial values (step 0)
  bool evaluate = false;   // the evaluation of the state at `step` is still missing
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Start, generation, rank, members, secret, step, restore, evaluate)

struct Stop {  // cut after the step in flight, write a checkpoint, park
  GenerationId generation;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Stop, generation)

struct Abort {  // give up the step in flight and park
  GenerationId generation;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Abort, generation)

struct Quit {  // exit; the run is over
  int reserved = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Quit, reserved)

using ToTrainer = std::variant<Start, Stop, Abort, Quit>;

// ---- coordinator and supervisor ----

struct CoordinatorUp {
  std::uint64_t term = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CoordinatorUp, term)

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

struct Ended {
  int exit_code = 0;
  std::string line;  // what to tell; an error line when the exit code says so
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Ended, exit_code, line)

using ToSupervisor = std::variant<CoordinatorUp, Say, Progress, Ended>;

struct StopRun {
  int exit_code = 75;
  std::string why;  // "SIGUSR1"
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StopRun, exit_code, why)

struct WorkerDied {  // the supervisor saw a worker process end
  std::string worker;
  bool by_signal = false;
  int code = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WorkerDied, worker, by_signal, code)

using ToCoordinator = std::variant<StopRun, WorkerDied>;

}  // namespace rekindle::protocol
