// The checkpoints of the run as the coordinator sees them: committed, being written, suspect, and the
// attempts to restore one. These classes only keep the facts; the coordinator acts on them.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "protocol/events.hpp"
#include "protocol/first_match_hint.hpp"
#include "protocol/messages.hpp"

namespace rekindle::protocol {

struct Restorable {
  std::string checkpoint;  // directory name
  std::uint64_t step = 0;
  std::string fingerprint;  // fingerprint of the trainers that wrote the checkpoint
};

// Committed checkpoints, newest first. Invariant: steps never increase along the list.
class CommittedCheckpoints {
 public:
  explicit CommittedCheckpoints(std::vector<Restorable> newest_first) : all_(std::move(newest_first)) {}
  const Restorable* newest() const { return all_.empty() ? nullptr : &all_.front(); }
  const Restorable* find(const std::string& checkpoint) const;
  bool has_step(std::uint64_t step) const;
  std::size_t count() const { return all_.size(); }
  void add(Restorable committed);
  void remove(const std::string& checkpoint);
  void check() const;
  // Keeps only the checkpoints `kept` that a sweep has left, and `besides`, which the sweep may not have
  // seen. An empty `kept` means unknown and changes nothing.
  void keep(const std::vector<std::string>& kept, const std::string& besides);

 private:
  std::vector<Restorable> all_;
};

// A checkpoint that is being written. It belongs to one step, one generation and its writers, and may finish
// after the generation has ended. Invariants: shards and failures are of its writers; a commit begins only
// when each writer's shard is there.
struct OpenCheckpoint {
  std::vector<std::string> writers;           // by rank
  std::map<int, ShardWritten> written;        // by rank
  std::map<std::string, std::string> failed;  // reason, by writer
  bool committing = false;
  bool pauses = false;  // the writers wait for it and pause afterwards
  FirstMatchHint unsettled;
  bool complete() const { return written.size() == writers.size(); }
  bool is_writer(int rank, const std::string& trainer) const {
    const auto at = static_cast<std::size_t>(rank);
    return rank >= 0 && at < writers.size() && writers[at] == trainer;
  }
  void check() const;
  // Whether all shards written so far have the same digest of the complete state.
  bool equal() const;
};

struct OpenCheckpoints {
  std::map<CheckpointKey, OpenCheckpoint> all;
  Time began{0};             // start of the last checkpoint; --checkpoint-interval counts from here
  Time write_time{0};        // duration of the slowest shard write seen
  bool lost = false;         // the last checkpoint lost a writer, and no other has begun since
  GenerationId save_asked;   // generation that was asked for a new one for that reason
  bool outage_told = false;  // a warning was sent that storage does not answer

  OpenCheckpoint* find(const CheckpointKey& key);
  bool any_of_step(std::uint64_t step) const;
  bool any_committing_beyond(std::uint64_t step) const;
  bool any_older_than(const GenerationId& generation) const;
  bool any_that_pauses() const;
};

// Steps whose checkpoint could not be written. Invariant: each has at least one failure.
class FailedCheckpoints {
 public:
  void failed(std::uint64_t step, std::string why);
  void written(std::uint64_t step) { failures_.erase(step); }
  // The reason, if the state at the end of a run could not be written in all its tries. `more`: tries,
  // besides the usual ones.
  std::optional<std::string> given_up(std::uint64_t step, std::uint64_t more = 0) const;
  // The time before the next try: the storage may come back, or somebody may make room.
  Time pause(std::uint64_t step) const;
  static constexpr Time kLongestPause{30000};
  void check() const;

 private:
  std::map<std::uint64_t, std::pair<std::size_t, std::string>>
      failures_;  // by step: number of failures, and the last reason
};

// States that must not be trusted, because replicas differ or memory has changed.
class SuspectStates {
 public:
  // No checkpoint of `generation` or an older one with a step after `last_trusted` is ever committed.
  // `generation` is the current one.
  void raise(const GenerationId& generation, std::uint64_t last_trusted);
  // A further report, of a generation that is covered. It limits no newer one.
  void narrow(const GenerationId& generation, std::uint64_t last_trusted);
  bool must_restore() const { return must_restore_; }  // states in memory must not be used
  bool is_about(const GenerationId& generation) const { return generation == generation_; }
  bool covers(const GenerationId& generation) const { return generation <= generation_; }
  bool forbids(const CheckpointKey& key) const;
  // The suspect generation may complete one more step before the abort reaches its trainers. Only a step of a
  // newer generation clears must_restore().
  void step_made(const GenerationId& generation) { must_restore_ = must_restore_ && covers(generation); }
  void check() const;

 private:
  bool must_restore_ = false;
  GenerationId generation_;  // the newest one
  std::map<GenerationId, std::uint64_t>
      last_trusted_;  // of each one: no fault takes back what another forbids
};

// The checkpoint from which the current generation began, and the attempts to restore it. Invariant: both
// counts are within their limits.
class RestoreTries {
 public:
  const std::string& checkpoint() const { return checkpoint_; }  // directory name; empty: none
  // The last checkpoint from which a generation made progress. All of its bytes were read and were correct.
  const std::string& verified() const { return verified_; }
  void begin(const std::string& checkpoint);
  void take_over(const std::string& checkpoint, const std::string& verified);
  // A generation made progress from the checkpoint. True if that was not known before.
  bool went_on();
  // True once for each generation: trainers that reconnect report the same failure again.
  bool failed_in(const GenerationId& generation);
  // For storage that does not answer: how long to wait before the next try. No value after the last try.
  std::optional<Time> try_again();
  // For a damaged checkpoint: true if other nodes should try to read it. True only once for each checkpoint.
  bool let_others_try(std::size_t hosts);
  // The members read the shards in reverse order of ranks, so that a node with faulty memory does not condemn
  // an intact checkpoint.
  bool others_try() const { return tries_ % 2 == 1; }
  void forget_tries() { tries_ = reads_ = 0; }
  void set_aside() { tries_ = 0; }
  void check() const;

 private:
  std::string checkpoint_, verified_;
  GenerationId judged_;  // generation whose failure to restore was already handled
  int tries_ = 0, reads_ = 0;
};

struct CheckpointLedger {
  CommittedCheckpoints committed;
  OpenCheckpoints open;
  FailedCheckpoints failed;
  SuspectStates suspect;
  RestoreTries restore;

  void check() const;
};

}  // namespace rekindle::protocol
