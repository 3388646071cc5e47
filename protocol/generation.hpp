// One generation, as its coordinator sees it: built once, when it is formed or taken over, and assigned
// whole.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "protocol/events.hpp"
#include "protocol/messages.hpp"
#include "protocol/witness.hpp"

namespace rekindle::protocol {

struct Generation {
  GenerationId id;
  std::vector<std::string> members;  // trainers, by rank
  std::set<std::string> sources;     // members that held the state of step `began` when it was formed
  std::uint64_t began = 0;           // its first step
  bool saves = false;                // it was formed to write the state, for a stop: it makes no step

  // What becomes of it.
  std::set<std::string> gone = {};           // trainers that are known to have ended
  std::optional<Time> newcomers_since = {};  // trainers wait that could be members of the next one
  bool pause_asked = false;                  // for them
  std::optional<std::pair<int, int>> suspect_link = {};  // ranks: the exchange between them failed first
  Witness moving = {};                                   // of the members

  bool has(const std::string& trainer) const { return std::ranges::find(members, trainer) != members.end(); }
  // members.size() for one that is no member.
  int rank_of(const std::string& trainer) const {
    return static_cast<int>(std::ranges::find(members, trainer) - members.begin());
  }
};

// The members of the last generations: late reports of their shards are still understood.
class PastGenerations {
 public:
  void remember(const Generation& generation) {
    constexpr std::size_t kRemembered = 16;
    all_.emplace_back(generation.id, generation.members);
    if (all_.size() > kRemembered) all_.pop_front();
  }
  // By rank; nullptr: of a generation that nobody remembers.
  const std::vector<std::string>* members_of(const GenerationId& id) const {
    const auto found = std::ranges::find(all_, id, [](const auto& entry) { return entry.first; });
    return found == all_.end() ? nullptr : &found->second;
  }

 private:
  std::deque<std::pair<GenerationId, std::vector<std::string>>> all_;
};

}  // namespace rekindle::protocol
