// All messages: each is a named struct, and a message of a generation carries the generation's id. Trainers
// and the coordinator: trainer_messages.hpp. The coordinator and its supervisor: supervisor_messages.hpp.
// Workers and the coordinator: here.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "protocol/supervisor_messages.hpp"
#include "protocol/trainer_messages.hpp"

namespace rekindle::protocol {

// ---- worker to coordinator ----

// What a new coordinator needs to know of a trainer.
struct TrainerState {
  TrainerReady ready;
  std::optional<Start> started;  // the newest Start that was sent to this trainer
  std::optional<Paused> parked;  // its pause in that generation, if it has paused
  TrainerBeat beat;
  std::vector<ShardWritten> written;  // its shard of the newest checkpoint, which may not be committed yet
  std::vector<ShardFailed> failed;    // its newest failure, and all failures with `changed`
  std::optional<ShardBegun> writing;  // the shard that is being written
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrainerState, ready, started, parked, beat, written, failed, writing)

// The first message on each connection.
struct Registration {
  std::string worker, host, build;
  int slots = 1;                       // number of trainers that this worker keeps running
  std::vector<TrainerState> trainers;  // the trainers that are warmed up
  bool joined = false;  // a worker of `rekindle join`: if this worker is refused, the run continues
  std::uint64_t directory_inode = 0;  // of the run directory as this worker sees it; 0: unknown
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Registration, worker, host, build, slots, trainers, joined,
                                   directory_inode)

// ---- coordinator to worker ----

// These are the coordinator's effects, the messages on the wire, and the worker's events.

// Its worker kills the trainer and starts another one.
enum class KillCause : std::uint8_t { kOver, kSilent, kHangs, kWrites, kDoesNotPause };
struct KillTrainer {
  std::uint64_t term = 0;
  std::string worker, trainer, why;
  KillCause cause =
      KillCause::kOver;  // by default: it is in a generation that is over. Not sent to the worker
};
// The run is over for this worker: the worker ends its trainers and exits.
struct Dismiss {
  std::uint64_t term = 0;
  std::string worker;
  int exit_code = 0;
  std::string why;
};
// The worker was declared lost but still sends messages: the worker must register again with the state of its
// trainers.
struct RegisterAgain {
  std::uint64_t term = 0;
  std::string worker;
};

}  // namespace rekindle::protocol
