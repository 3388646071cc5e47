// What is known of the run's checkpoints: those that are committed, those that are being written, whose
// states are in doubt, and how it goes with restoring one. The coordinator asks, and acts.
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
#include "protocol/messages.hpp"
#include "protocol/witness.hpp"

namespace rekindle::protocol {

struct Restorable {
  std::string checkpoint;  // directory name
  std::uint64_t step = 0;
  std::string fingerprint;  // of its writers
};

// Committed ones, newest first. Invariant: their steps do not grow from one to the next.
class CommittedCheckpoints {
 public:
  explicit CommittedCheckpoints(std::vector<Restorable> newest_first) : all_(std::move(newest_first)) {}
  const Restorable* newest() const { return all_.empty() ? nullptr : &all_.front(); }
  const Restorable* find(const std::string& checkpoint) const;
  bool has_step(std::uint64_t step) const;
  std::size_t count() const { return all_.size(); }
  void add(Restorable committed);
  void remove(const std::string& checkpoint);
  // A sweep has left these, and `besides`, which it may not have seen; none: it does not know.
  void keep(const std::vector<std::string>& kept, const std::string& besides);

 private:
  std::vector<Restorable> all_;
};

// One that is being written: it belongs to its step, its generation and its writers, and outlives the
// generation.
struct OpenCheckpoint {
  std::vector<std::string> writers;           // by rank
  std::map<int, ShardWritten> written;        // by rank
  std::map<std::string, std::string> failed;  // by writer: why
  bool committing = false;
  bool parks = false;  // its writers do nothing else
  Witness unsettled;
  bool whole() const { return written.size() == writers.size(); }
  // Whether all who have written their shard say the same of the whole state.
  bool alike() const;
};

struct OpenCheckpoints {
  std::map<CheckpointKey, OpenCheckpoint> all;
  Time began{0};            // the last one; what --checkpoint-interval counts from
  Time write_time{0};       // of the slowest shard seen
  bool lost = false;        // the last one, with one of its writers; none has begun since
  GenerationId save_asked;  // of that generation, for it

  OpenCheckpoint* find(const CheckpointKey& key);
  bool any_of_step(std::uint64_t step) const;
  bool any_committing_beyond(std::uint64_t step) const;
  bool any_older_than(const GenerationId& generation) const;
  bool any_that_parks() const;
};

// Steps whose checkpoint could not be written.
class FailedCheckpoints {
 public:
  void failed(std::uint64_t step, std::string why);
  void written(std::uint64_t step) { failures_.erase(step); }
  // Why, if the state at the end of a run could not be written in two tries.
  std::optional<std::string> given_up(std::uint64_t step) const;

 private:
  std::map<std::uint64_t, std::pair<int, std::string>>
      failures_;  // by step: how often, and why the last time
};

// States that are not to be trusted, because replicas differ or memory has changed.
class Doubt {
 public:
  // Of `generation` and those before it, no state later than that of step `last_good` is ever committed.
  void raise(const GenerationId& generation, std::uint64_t last_good);
  // The same is told once more.
  void narrow(std::uint64_t last_good);
  bool must_restore() const { return must_restore_; }  // what is held in memory does not count
  bool is_about(const GenerationId& generation) const { return generation == generation_; }
  bool covers(const GenerationId& generation) const { return generation <= generation_; }
  bool forbids(const CheckpointKey& key) const { return covers(key.second) && key.first > last_good_; }
  // The generation in doubt may make one more step before its trainers hear of it.
  void step_made(const GenerationId& generation) { must_restore_ = must_restore_ && covers(generation); }

 private:
  bool must_restore_ = false;
  GenerationId generation_;
  std::uint64_t last_good_ = std::numeric_limits<std::uint64_t>::max();
};

// The checkpoint that the current generation began with, and the tries to restore it.
class RestoreTries {
 public:
  const std::string& checkpoint() const { return checkpoint_; }  // directory name; empty: none
  // The last one from which the run went on, so that all of it was read, and was right.
  const std::string& verified() const { return verified_; }
  void begin(const std::string& checkpoint);
  void take_over(const std::string& checkpoint, const std::string& verified);
  // The run has gone on from it. True: that is news.
  bool went_on();
  // True once for each generation: those that come back say it again.
  bool failed_in(const GenerationId& generation);
  // Storage that does not answer: how long to wait before the next try; nothing: it was tried long enough.
  std::optional<Time> try_again();
  // A damaged one: true if other nodes should try, which is done once.
  bool let_others_try(std::size_t hosts);
  // Others do: its shards are dealt to the members in reverse, so that a bad node does not condemn a good
  // checkpoint.
  bool others_try() const { return tries_ % 2 == 1; }
  void forget_tries() { tries_ = reads_ = 0; }
  void set_aside() { tries_ = 0; }

 private:
  std::string checkpoint_, verified_;
  GenerationId judged_;  // whose failure to restore has been dealt with
  int tries_ = 0, reads_ = 0;
};

struct CheckpointLedger {
  CommittedCheckpoints committed;
  OpenCheckpoints open;
  FailedCheckpoints failed;
  Doubt doubt;
  RestoreTries restore;
};

}  // namespace rekindle::protocol
