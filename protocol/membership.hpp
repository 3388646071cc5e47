// The registered workers and their trainers, and when each last sent a message.
//
// Invariants, between two events: the worker of each trainer is known. `rank` is the rank in the current
// generation, or -1. Only members of the generation have paused.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/events.hpp"
#include "protocol/messages.hpp"

namespace rekindle::protocol {

struct KnownWorker {
  std::string host;
  int slots = 1;
  bool joined = false;  // a worker of `rekindle join`, not of the run itself
  Time last_seen{0};
};

struct KnownTrainer {
  std::string worker;
  TrainerReady ready;
  int rank = -1;                 // in the current generation; -1: waits for the next generation
  std::optional<Paused> paused;  // report of its pause in the current generation
  TrainerBeat beat;
  Time last_seen{0}, progressed{0};
  std::uint64_t peak_pss_bytes = 0;
  std::optional<CheckpointKey> writing;     // the checkpoint whose shard is being written
  std::optional<CheckpointKey> wrote;       // the last checkpoint whose shard was reported
  Time writing_since{0}, block_written{0};  // block_written: when its last block was, or ShardBegun
  std::string failure;                      // what the trainer said before it ended by itself
  bool moving() const { return rank >= 0 && !paused; }
  // A write to storage cannot be interrupted, and storage may be slow.
  bool waits_for_its_write() const { return writing && beat.phase == TrainerPhase::kWriting; }
  // An update cannot be interrupted, either. If it waits for a peer, the update is over.
  bool updates() const { return beat.phase == TrainerPhase::kApplying && beat.waiting_for < 0; }
  // Whether it has the state of its generation's newest step, or of one step before.
  bool has_state() const;
};

struct Membership {
  std::map<std::string, KnownWorker> workers;
  std::map<std::string, KnownTrainer> trainers;

  KnownTrainer* find(const std::string& trainer);
  const KnownTrainer* find(const std::string& trainer) const;

  bool joined(const std::string& worker) const;
  bool own_trainer_there() const;  // whether a worker that did not join has a trainer
  std::string host_of(const std::string& worker) const;
  bool others_than(const std::string& host) const;  // whether there are workers on another host
  std::vector<std::string> workers_on(const std::string& host) const;
  std::vector<std::string> trainers_of(const std::string& worker) const;
  std::size_t slots() const;                     // of all workers
  int own_slots(const std::string& host) const;  // of workers that did not join
  bool own_trainer_ready_on(const std::string& host) const;

  // ---- time ----
  std::vector<std::string> silent_workers(Time now, Time limit) const;
  std::vector<std::string> silent_trainers(Time now, Time limit) const;
  // Members that make no progress and wait neither for a peer nor for their own write.
  std::vector<std::string> hung(Time now, Time limit) const;
  // Writers that have written no block for `limit`, or that began longer than `most` ago.
  std::vector<std::string> stuck_writers(Time now, Time limit, Time most) const;
  // Whether a trainer that writes no shard has the state.
  bool state_is_safe_from_storage() const;
  // A trainer has made progress if its heartbeat differs from the one before.
  void beat(const TrainerBeat& beat, Time now);
  // The coordinator read no messages for `gap`, because it was delayed itself. After a long gap all silence
  // is forgiven, because all processes may have been suspended. After a short gap only the gap itself is
  // forgiven: repeated small delays would otherwise hide every silence and every hang.
  void forgive(Time gap, bool is_long, Time now);

  void check() const;  // takes time in proportion to the number of trainers
};

}  // namespace rekindle::protocol
