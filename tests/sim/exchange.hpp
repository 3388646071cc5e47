// The virtual data plane of one generation: ranks meet, post headers, read each other's memory.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "model.hpp"
#include "protocol/messages.hpp"

namespace rekindle::sim {

class TrainerProcess;

struct Header {
  char operation = 0;  // all ranks are in the same one, or the exchange is broken
  std::uint32_t flags = 0;
  Hash128 hash;
};

// A trainer's gradient memory, that its peers read.
struct Slot {
  std::uint64_t step = 0;
  State state = 0;  // that the gradients were computed from
  int first = 0, count = 0;
  bool tainted = false;
};

struct Seat {
  TrainerProcess* trainer = nullptr;  // null: has not come
  bool left = false;                  // or died
  bool gone_on = false;               // its memory may serve another generation
  std::vector<Header> posted;         // by operation
  std::size_t reads = 0;              // "I have read you" up to this many
};

struct Meeting {
  std::vector<Seat> seats;  // by rank
  void changed();           // its members look again
};

// The data links between workers.
class DataLinks {
 public:
  void block(const std::string& a, const std::string& b) { blocked_.insert(std::minmax(a, b)); }
  void unblock(const std::string& a, const std::string& b) { blocked_.erase(std::minmax(a, b)); }
  void break_off(const std::string& a, const std::string& b) { broken_.insert(std::minmax(a, b)); }
  void mend(const std::string& a, const std::string& b) { broken_.erase(std::minmax(a, b)); }
  bool blocked(const std::string& a, const std::string& b) const {
    return blocked_.contains(std::minmax(a, b));
  }
  bool broken(const std::string& a, const std::string& b) const {
    return broken_.contains(std::minmax(a, b));
  }

 private:
  std::set<std::pair<std::string, std::string>> blocked_, broken_;
};

}  // namespace rekindle::sim
