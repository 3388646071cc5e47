// What a seed decides before anything happens: the size of the run, its timings, its faults.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine.hpp"
#include "faults.hpp"
#include "protocol/coordinator.hpp"

namespace rekindle::sim {

// What is wrong with the samples of one step.
enum class Poison { kNone, kCrashes, kNotFinite };

struct Plan {
  std::uint64_t seed = 0;
  protocol::Job job;
  int workers = 2, slots = 1, hosts = 2;
  bool peers_see_deaths = false;  // tcp: a closed socket; shared memory: only the coordinator's word
  Ms leaf_ms = 10, exchange_ms = 4, update_ms = 4, write_ms = 20, warm_up_ms = 400, network_ms = 5;
  Ms lag_ms = 300;  // until a name on the shared directory shows on another host
  protocol::CoordinatorConfig timings;
  std::vector<PlannedFault> faults;
  Poison poison = Poison::kNone;
  std::uint64_t poison_step = 0;
  int attempts = 1;      // of a run that is stopped
  std::string bad_host;  // trainers cannot start there; empty: no such host
};

Plan make_plan(std::uint64_t seed);

}  // namespace rekindle::sim
