// Which trainer the others wait for: a slow machine, or one with other work. No CAF.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "protocol/membership.hpp"

namespace rekindle::actors {

// Each look counts, for each member, how many of the others wait for it at that moment. In a run without a
// slow trainer, the members wait for each other about equally. Invariant: only trainers that are there are
// slow.
class SlowTrainers {
 public:
  static constexpr int kWindow = 60;  // looks: older ones count half
  // A trainer is slow if the others wait for it for more than this part of their time, and for no other
  // trainer half as much.
  static constexpr double kShare = 0.25;

  struct Change {
    std::string trainer;
    bool slow = false;
  };
  // Call about once a second. The trainers that became slow, or are no longer.
  std::vector<Change> look(const std::map<std::string, protocol::KnownTrainer>& trainers);
  bool is_slow(const std::string& trainer) const { return slow_.contains(trainer); }

 private:
  std::set<std::string> judge(std::size_t members) const;

  std::map<std::string, double> waits_;  // how often another trainer waited for this one
  double looks_ = 0;
  int since_halved_ = 0;
  std::set<std::string> slow_;
};

}  // namespace rekindle::actors
