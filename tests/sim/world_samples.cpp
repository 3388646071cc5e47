// What is wrong with the samples of a plan, and when.
#include "base/text.hpp"
#include "world.hpp"

namespace rekindle::sim {

using protocol::Finish;

bool World::poisoned(std::uint64_t step, int leaf) const {
  return plan_.poison == Poison::kCrashes && step == plan_.poison_step && leaf == 0;
}
bool World::not_finite(std::uint64_t step) const {
  return plan_.poison == Poison::kNotFinite && step == plan_.poison_step;
}

bool World::unusable(std::uint64_t step, int leaf, const std::string& host) const {
  return plan_.poison == Poison::kUnusable && step == plan_.poison_step && leaf == 0 &&
         (plan_.unusable_on.empty() || plan_.unusable_on == host);
}

bool World::samples_away(const std::string& host) const {
  const auto& away = plan_.samples_away;
  return away && away->from <= engine_.now() && engine_.now() < away->until &&
         (away->host.empty() || away->host == host);
}

// Called when a coordinator stops the run because no trainer can read samples.
void World::samples_stay_away(const Finish& finish) {
  stop_codes_.insert(75);
  const auto& away = plan_.samples_away;
  // A jump of the clock counts as a quarter of the wait at most, and a hanging read as a second.
  const auto least = static_cast<Ms>(plan_.job.data_wait_ms) / 2;
  if (!away || away->until - away->from < least)
    violated(str("samples were not away for so long: ", finish.line));
}

}  // namespace rekindle::sim
