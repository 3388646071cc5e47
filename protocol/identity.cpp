#include "protocol/identity.hpp"

#include "protocol/job.hpp"

namespace rekindle::protocol {

std::string difference_until(std::uint64_t step, nlohmann::json theirs, const nlohmann::json& ours) {
  if (rates_until(theirs, step) != rates_until(ours, step)) return "lr";
  take_rates(theirs, ours);
  take_skip_corrupt(theirs, ours);
  return first_difference(theirs, ours);
}

}  // namespace rekindle::protocol
