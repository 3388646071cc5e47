// One generation as its coordinator sees it. The struct is created when the generation is formed or adopted,
// and always assigned as a whole.
//
// Invariants: only members are sources. Members are asked to pause only if trainers wait to join, and never
// in a generation that makes no step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/invariant.hpp"
#include "protocol/events.hpp"
#include "protocol/first_match_hint.hpp"
#include "protocol/messages.hpp"

namespace rekindle::protocol {

struct Generation {
  GenerationId id;
  std::vector<std::string> members;  // trainers, by rank
  std::set<std::string> sources;  // members that had the state of step `began` when the generation was formed
  std::uint64_t began = 0;        // the step of the state from which the generation began
  bool saves = false;             // formed only to write the state for a stop: the generation makes no step

  // Changes while the generation runs:
  std::set<std::string> gone = {};           // trainers that have ended
  std::optional<Time> newcomers_since = {};  // since when trainers wait to join
  bool pause_asked = false;                  // PauseForJoin was sent
  // The two ranks whose exchange failed first. The second one is -1 if the error names no peer.
  std::optional<std::pair<int, int>> suspect_link = {};
  bool storage_away = false;   // when a member gave up waiting for samples, all others waited for them, too
  FirstMatchHint moving = {};  // hint for the search of a member that has not paused

  bool has(const std::string& trainer) const { return std::ranges::find(members, trainer) != members.end(); }
  bool has(const std::string& trainer, int rank) const {
    const std::string* const name = member(rank);
    return name != nullptr && *name == trainer;
  }
  // nullptr: no such rank.
  const std::string* member(int rank) const {
    const auto at = static_cast<std::size_t>(rank);
    return rank < 0 || at >= members.size() ? nullptr : &members[at];
  }
  // Returns members.size() if `trainer` is not a member.
  int rank_of(const std::string& trainer) const {
    return static_cast<int>(std::ranges::find(members, trainer) - members.begin());
  }
  void check() const {
    invariant(sources.size() <= members.size(), "a source is no member");
    invariant(!pause_asked || newcomers_since, "members pause for a join, but no trainer waits");
    invariant(!pause_asked || !saves, "a generation that makes no step pauses for a join");
  }
};

// The members of the last 16 generations, for late reports of their shards.
class PastGenerations {
 public:
  void remember(const Generation& generation) {
    constexpr std::size_t kRemembered = 16;
    all_.emplace_back(generation.id, generation.members);
    if (all_.size() > kRemembered) all_.pop_front();
  }
  // By rank; nullptr: unknown generation.
  const std::vector<std::string>* members_of(const GenerationId& id) const {
    const auto found = std::ranges::find(all_, id, [](const auto& entry) { return entry.first; });
    return found == all_.end() ? nullptr : &found->second;
  }

 private:
  std::deque<std::pair<GenerationId, std::vector<std::string>>> all_;
};

}  // namespace rekindle::protocol
