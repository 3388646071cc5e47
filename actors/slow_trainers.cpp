#include "actors/slow_trainers.hpp"

#include <utility>

namespace rekindle::actors {

using protocol::KnownTrainer;

std::vector<SlowTrainers::Change> SlowTrainers::look(const std::map<std::string, KnownTrainer>& trainers) {
  std::map<int, std::string> by_rank;
  for (const auto& [name, trainer] : trainers)
    if (trainer.rank >= 0) by_rank[trainer.rank] = name;
  for (const auto& [name, trainer] : trainers) {
    const auto waited_for = by_rank.find(trainer.rank >= 0 ? trainer.beat.waiting_for : -1);
    if (waited_for != by_rank.end() && waited_for->second != name) waits_[waited_for->second] += 1;
  }
  std::erase_if(waits_, [&](const auto& entry) { return !trainers.contains(entry.first); });
  looks_ += 1;
  if (++since_halved_ == kWindow) {
    since_halved_ = 0;
    looks_ /= 2;
    for (auto& [name, count] : waits_) count /= 2;
  }
  std::set<std::string> now = judge(by_rank.size());
  std::vector<Change> changes;
  for (const std::string& name : now)
    if (!slow_.contains(name)) changes.push_back({name, true});
  for (const std::string& name : slow_)
    if (!now.contains(name)) changes.push_back({name, false});
  slow_ = std::move(now);
  return changes;
}

std::set<std::string> SlowTrainers::judge(std::size_t members) const {
  constexpr int kEnough = kWindow / 2;
  if (members < 2 || looks_ < kEnough) return {};
  std::string slowest;
  double most = 0, second = 0;
  for (const auto& [name, count] : waits_) {
    if (count > most) {
      second = std::exchange(most, count);
      slowest = name;
    } else if (count > second) {
      second = count;
    }
  }
  const double share = most / (looks_ * static_cast<double>(members - 1));
  return share > kShare && second < most / 2 ? std::set{slowest} : std::set<std::string>();
}

}  // namespace rekindle::actors
