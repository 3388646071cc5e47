// What the run puts up with, and whom it blames. Each part counts one kind of fault and judges it; it knows
// nothing of the others and does nothing itself: the coordinator acts on the judgement.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "protocol/events.hpp"

namespace rekindle::protocol {

// Trainers that end by themselves, generation after generation, at one step: a sample or a bug that nobody
// gets past. Counted for each generation, not for each trainer, as one cause may take many. Invariant:
// generations_ is 0 unless step_ is known.
class StepCrashes {
 public:
  // A member has crashed; `known_step`: the newest that is known.
  void crashed(std::string how, std::uint64_t known_step);
  void forgive() { how_.clear(); }  // the crash of this generation was the host's fault
  struct Stuck {
    std::uint64_t step = 0;
    std::string how;  // the last one ended
  };
  // Once for each generation that has ended, from `began` to `reached`. A value: the run cannot go on.
  std::optional<Stuck> generation_ended(std::uint64_t began, std::uint64_t reached);

 private:
  std::string how_;  // in this generation; empty: none has crashed
  std::optional<std::uint64_t> step_;
  int generations_ = 0;  // that came no further than step_ because a trainer crashed
};

// Trainers that somebody kills, which is no trainer's fault: he wants the node, or plays with kill -9. Very
// many without a step in between are told, as most often the memory does not suffice.
class Kills {
 public:
  // The step that nobody gets past, after 20 kills of each of `trainers`, on average.
  std::optional<std::uint64_t> killed(std::uint64_t known_step, int trainers);

 private:
  std::optional<std::uint64_t> step_;
  int kills_ = 0;  // since step_ was reached
};

// Crashes on one host while no other host has any.
class HostCrashes {
 public:
  // True: `host` is at fault. `others_there`: whether there are workers on other hosts.
  bool crashed(const std::string& host, bool others_there);

 private:
  std::map<std::string, int> crashes_;
};

// What the run's own trainers do before there is any generation. Each slot of a host has three tries.
class StartTries {
 public:
  using SlotsOf = std::function<int(const std::string& host)>;

  void said(const std::string& host, Finish words) { hosts_[host].said = std::move(words); }
  // `refused`: it said that it cannot work there, so its worker does not try again.
  void crashed(const std::string& host, std::string how, bool refused);
  // Hosts all of whose slots have had their tries.
  std::vector<std::string> used_up(const SlotsOf& own_slots) const;
  // Whether `expected` slots have had theirs. A crash beyond a host's tries does not count: a bad host, which
  // is quick to crash, would use up what the others need.
  bool all_used_up(const SlotsOf& own_slots, int expected) const;
  // What a person needs to know of a host that is left out now.
  std::string take_out(const std::string& host);
  // The same where the run ends: the words of a trainer that could speak, else how one ended.
  Finish end(const std::string& what) const;

 private:
  struct Host {
    int count = 0;               // a trainer that is not tried again counts for all tries of its slot
    std::string how;             // the last one ended
    std::optional<Finish> said;  // by the last one that could speak
  };
  std::map<std::string, Host> hosts_;  // those that were not left out
};

// Data links that fail though both ends live. Between workers.
class Links {
 public:
  static constexpr int kLimit = 3;
  // How often this one has failed now.
  int failed(const std::string& a, const std::string& b) { return ++failures_[std::minmax(a, b)]; }
  int failures_of(const std::string& worker) const;
  void forget(const std::string& worker);
  void clear() { failures_.clear(); }

 private:
  std::map<std::pair<std::string, std::string>, int> failures_;
};

// Trainers whose state is not like the others'.
class OddStates {
 public:
  static constexpr int kLimit = 2;
  // True: `trainer` is replaced.
  bool differed(const std::string& trainer) { return ++times_[trainer] >= kLimit; }

 private:
  std::map<std::string, int> times_;
};

struct FaultPolicy {
  StepCrashes step_crashes;
  Kills kills;
  HostCrashes host_crashes;
  StartTries start_tries;
  Links links;
  OddStates odd_states;
};

}  // namespace rekindle::protocol
