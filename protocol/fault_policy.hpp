// Which faults the run tolerates, and which trainer, host or link is at fault. Each class counts one kind of
// fault and judges it, independently of the others; the coordinator acts on the judgement.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/invariant.hpp"
#include "protocol/events.hpp"
#include "protocol/trainer_name.hpp"

namespace rekindle::protocol {

// Trainers that crash (or hang, or cannot exchange data), generation after generation, at the same step: a
// bad sample or a bug blocks the run. A generation counts once, because one cause may end many trainers.
// Invariant: generations_ is 0 unless step_ has a value.
class StepCrashes {
 public:
  explicit StepCrashes(int limit) : limit_(limit) {}  // generations in a row
  // A member has crashed. `known_step`: the newest reported step.
  void crashed(std::string how, std::uint64_t known_step);
  void forgive() { how_.clear(); }  // the crash of this generation was the fault of a host
  struct Stuck {
    std::uint64_t step = 0;
    std::string how;  // how the last trainer ended
  };
  // Call once for each generation that has ended, from step `began` to step `reached`. A value means that the
  // run cannot continue.
  std::optional<Stuck> generation_ended(std::uint64_t began, std::uint64_t reached);
  void check() const { invariant(step_ || generations_ == 0, "crashes are counted for no step"); }

 private:
  std::string how_;  // last crash in this generation; empty: none
  std::optional<std::uint64_t> step_;
  int generations_ = 0;  // generations in a row that crashed without passing step_
  int limit_;
};

// Trainers that are killed from outside (SIGKILL). That is no fault of a trainer: a user may kill processes,
// or a scheduler may take the node. Very many kills without a step in between are reported, because the most
// frequent cause is too little memory. Trainers that the coordinator ends for a hang have a count of their
// own. Invariant: kills_ is 0 unless step_ has a value.
class Kills {
 public:
  void ordered(const std::string& trainer) { ordered_.insert(trainer); }
  // The step at which the run is stuck, after 20 kills for each of `trainers`, on average.
  std::optional<std::uint64_t> killed(const std::string& trainer, std::uint64_t known_step, int trainers);
  void check() const { invariant(step_ || kills_ == 0, "kills are counted for no step"); }

 private:
  std::optional<std::uint64_t> step_;
  int kills_ = 0;                  // since step_ was reached
  std::set<std::string> ordered_;  // trainers that are killed because they hang
};

// Generations with a crash on one host, while no other host has any. A generation counts once, because one
// cause may end all trainers of a host. A host without a crash for an hour starts anew: in days, three
// crashes may be on one host by chance.
class HostCrashes {
 public:
  // A hang takes `hang_after` to be seen.
  static Time forgotten_after(Time hang_after) { return std::max(Time(3600000), 2 * hang_after); }
  // True if `host` is at fault. `others_there`: whether there are workers on other hosts. Crashes at
  // `forgotten` or before do not count.
  bool crashed(const std::string& host, const GenerationId& generation, Time now, Time forgotten,
               bool others_there);

 private:
  struct Crashes {
    int generations = 0;
    GenerationId last = {};
    Time at{0};
  };
  std::map<std::string, Crashes> hosts_;
};

// Start failures of the run's own trainers before the first generation. Each slot of a host has three tries.
class StartTries {
 public:
  using SlotsOf = std::function<int(const std::string& host)>;

  void reported(const std::string& host, Finish error) { hosts_[host].error = std::move(error); }
  // A trainer of `host` has no usable GPU, and others there may have one. True for the first time of its
  // slot, which the start does not wait for: its crashes do not count.
  bool has_no_gpu(const std::string& trainer, const std::string& host) {
    return no_gpu_.emplace(slot_of(trainer), host).second;
  }
  bool is_without_gpu(const std::string& trainer) const { return no_gpu_.contains(slot_of(trainer)); }
  int slots_without_gpu(const std::string& host) const;
  bool any_without_gpu() const { return !no_gpu_.empty(); }
  // `refused`: the trainer reported that it cannot work there, so its worker does not try again.
  void crashed(const std::string& host, std::string how, bool refused);
  // Hosts on which all slots have used their tries.
  std::vector<std::string> used_up(const SlotsOf& own_slots) const;
  // Whether `expected` slots have used their tries. Crashes beyond the tries of a host do not count: a bad
  // host crashes fast and would use up the tries of the others.
  bool all_used_up(const SlotsOf& own_slots, int expected) const;
  // The error to report for a host that is excluded now.
  std::string take_out(const std::string& host);
  // The error to report if the run ends: the reported error of a trainer, else how a trainer ended.
  Finish end(EndCause cause, const std::string& what) const;

 private:
  struct Host {
    int count = 0;                // a refused trainer counts for all tries of its slot
    std::string how;              // how the last trainer ended
    std::optional<Finish> error;  // reported by the last trainer that could report
  };
  std::map<std::string, Host> hosts_;          // hosts that are not excluded
  std::map<std::string, std::string> no_gpu_;  // the host, by slot
};

// What trainers say before they end. A slot is tried again and again, and most often meets the same error.
class ToldFailures {
 public:
  // Whether no trainer of this worker has said it since one was ready.
  bool is_new(const std::string& worker, const std::string& what) {
    return told_[worker].insert(what).second;
  }
  void ready(const std::string& worker) { told_.erase(worker); }

 private:
  std::map<std::string, std::set<std::string>> told_;
};

// Data links between workers that fail although both ends are alive. Invariant: no worker has a link to
// itself, and none is kept that has not failed.
class Links {
 public:
  static constexpr int kLimit = 3;
  // Counts a failure and returns the number of failures of this link.
  int failed(const std::string& a, const std::string& b) { return ++failures_[std::minmax(a, b)]; }
  int failures_of(const std::string& worker) const;
  void forget(const std::string& worker);
  void clear() { failures_.clear(); }
  void check() const {
    for (const auto& [link, count] : failures_)
      invariant(link.first < link.second && count > 0, "a data link of one worker, or without a failure");
  }

 private:
  std::map<std::pair<std::string, std::string>, int> failures_;
};

// Exchanges that fail although no link and no member is at fault: NCCL names no peer in its errors.
class FailedExchanges {
 public:
  static constexpr int kTriesOfNccl = 2;  // generations in a row
  // Counts a generation, and returns the number of such generations in a row.
  int failed() { return ++in_a_row_; }
  bool any() const { return in_a_row_ > 0; }
  void went_on() { in_a_row_ = 0; }
  // From now on gradients go through host memory. That holds until the attempt ends.
  void give_up_nccl() { no_nccl_ = true; }
  bool nccl_is_given_up() const { return no_nccl_; }

 private:
  int in_a_row_ = 0;
  bool no_nccl_ = false;
};

// Trainers whose state differs from the majority.
class OddStates {
 public:
  static constexpr int kLimit = 2;
  // True if `trainer` must be replaced.
  bool differed(const std::string& trainer) { return ++times_[trainer] >= kLimit; }
  // Call each time that the states differ; `saved`: the newest committed step. True if this has happened
  // kMostRollbacks times since that step was committed: going back once more would not help.
  bool without_progress(std::uint64_t saved);
  static constexpr int kMostRollbacks = 10;

 private:
  std::map<std::string, int> times_;
  std::uint64_t saved_ = 0;
  int rollbacks_ = 0;  // since saved_ was committed
};

// Samples that are left out, and workers whose trainers cannot use samples that others may be able to use.
class UnusableSamples {
 public:
  // A sample is left out. The number of such samples, or 0 if this one is known.
  std::size_t skipped(const std::string& why) { return skipped_.insert(why).second ? skipped_.size() : 0; }
  // A trainer of `worker` has paused for this. True if that worker reported the same in an earlier
  // generation, and no step was made since.
  bool reported(const std::string& worker, const GenerationId& generation);
  void step_made() { reports_.clear(); }
  // At most once a minute: a trainer waits for samples.
  bool may_tell(Time now) {
    if (told_ && now - *told_ < Time(60000)) return false;
    told_ = now;
    return true;
  }
  // A worker that is left out for this must not come back: it would fail again.
  void leave_out(const std::string& worker, std::string why) { left_out_[worker] = std::move(why); }
  const std::string* why_left_out(const std::string& worker) const;  // nullptr: the worker is not left out

 private:
  std::map<std::string, GenerationId> reports_;  // the first generation with a report, by worker
  std::map<std::string, std::string> left_out_;
  std::set<std::string> skipped_;
  std::optional<Time> told_;
};

// How long a worker or trainer may be silent. Where everything is short of processor time, the limit that is
// given would end generation after generation: it doubles with each loss that comes without a step since the
// one before.
class SilenceLimit {
 public:
  // `hang_after`: a longer silence would count as a hang, which ends the run if it comes again and again.
  Time after(Time given, Time hang_after) const {
    const Time most = std::max(given, std::min(kMost, hang_after / 2));
    return std::min(most, given * (1 << doublings_));
  }
  // Something was lost because of its silence. True if the limit may be larger now. `step`: the newest one.
  bool lost_at(std::uint64_t step, Time now, Time limit) {
    const bool again = step_ == step && now - at_ >= limit;  // sooner: many are silent for one reason
    step_ = step;
    at_ = now;
    if (!again || doublings_ == kMostDoublings) return false;
    ++doublings_;
    return true;
  }

 private:
  static constexpr Time kMost{60000};
  static constexpr int kMostDoublings = 6;
  std::optional<std::uint64_t> step_;  // of the last loss
  Time at_{0};                         // of the last loss
  int doublings_ = 0;
};

struct FaultPolicy {
  StepCrashes step_crashes{3};
  StepCrashes step_hangs{5};      // more: a hang may be the storage's, and then pass
  StepCrashes step_exchanges{5};  // exchanges that fail, and no worker can be excluded for it
  Kills kills;
  HostCrashes host_crashes;
  StartTries start_tries;
  Links links;
  FailedExchanges exchanges;
  OddStates odd_states;
  UnusableSamples samples;
  SilenceLimit silence;
  ToldFailures told;

  void check() const {
    step_crashes.check();
    step_hangs.check();
    step_exchanges.check();
    kills.check();
    links.check();
  }
};

}  // namespace rekindle::protocol
