// The decisions that a seed makes in advance: the size of the run, its timings, its faults.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine.hpp"
#include "faults.hpp"
#include "protocol/coordinator.hpp"

namespace rekindle::sim {

// The problem with the samples of one step.
enum class Poison { kNone, kCrashes, kNotFinite };

struct Plan {
  std::uint64_t seed = 0;
  protocol::Job job;
  int workers = 2, slots = 1, hosts = 2;
  // True as with TCP (closed socket); false as with shared memory (only the coordinator notices).
  bool peers_see_deaths = false;
  Ms leaf_ms = 10, exchange_ms = 4, update_ms = 4, write_ms = 20, warm_up_ms = 400, network_ms = 5;
  Ms lag_ms = 300;  // delay until a name on the shared directory is visible on another host
  protocol::CoordinatorConfig timings;
  std::vector<PlannedFault> faults;
  Poison poison = Poison::kNone;
  std::uint64_t poison_step = 0;
  int attempts = 1;      // attempts of a run that is stopped
  std::string bad_host;  // trainers cannot start there; empty: no such host
};

Plan make_plan(std::uint64_t seed);

}  // namespace rekindle::sim
