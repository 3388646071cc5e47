// Who is there: workers and their trainers, and when each was heard last.
//
// Invariants: a trainer's worker may be unknown (its connection broke, and its trainers were not lost yet)
// only within one event; `rank` is that in the current generation, or -1.
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
  bool joined = false;  // a helper's, which came to a run of others
  Time heard{0};
};

struct KnownTrainer {
  std::string worker;
  TrainerReady ready;
  int rank = -1;                 // in the current generation; -1: waits for the next one
  std::optional<Parked> parked;  // for the end of the current generation
  TrainerBeat beat;
  Time heard{0}, progressed{0};
  std::uint64_t peak_pss_bytes = 0;
  std::optional<CheckpointKey> writing;  // a shard of it
  std::optional<CheckpointKey> wrote;    // the last one that it reported
  Time writing_since{0};
  bool moving() const { return rank >= 0 && !parked; }
};

struct Membership {
  std::map<std::string, KnownWorker> workers;
  std::map<std::string, KnownTrainer> trainers;

  KnownTrainer* find(const std::string& trainer);
  const KnownTrainer* find(const std::string& trainer) const;

  bool joined(const std::string& worker) const;
  bool own_trainer_there() const;  // of a worker that did not join
  std::string host_of(const std::string& worker) const;
  bool others_than(const std::string& host) const;  // workers on another host
  std::vector<std::string> workers_on(const std::string& host) const;
  std::vector<std::string> trainers_of(const std::string& worker) const;
  std::size_t slots() const;                     // of all workers
  int own_slots(const std::string& host) const;  // of those that did not join
  bool own_trainer_ready_on(const std::string& host) const;

  // ---- time ----
  std::vector<std::string> silent_workers(Time now, Time limit) const;
  std::vector<std::string> silent_trainers(Time now, Time limit) const;
  // Members that make no progress and wait for nobody.
  std::vector<std::string> hung(Time now, Time limit) const;
  std::vector<std::string> stuck_writers(Time now, Time limit) const;
  // A trainer has made progress if its beat differs from the one before.
  void beat(const TrainerBeat& beat, Time now);
  // Nobody could be heard for `gap`, because the coordinator itself was held up. After a long one everybody
  // may have been suspended too: all silence is forgiven. After a short one only the time in which nothing
  // could be heard: small delays, again and again, would hide every silence and every hang.
  void forgive(Time gap, bool is_long, Time now);
};

}  // namespace rekindle::protocol
