// The decisions that a seed makes in advance: the size of the run, its timings, its faults.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine.hpp"
#include "faults.hpp"
#include "protocol/coordinator.hpp"

namespace rekindle::sim {

// Longer than any plan's lag_ms, as kNamesAreSeenWithin is in production.
inline constexpr Ms kSeenWithin = 8000;
// A holder of the run that is silent for this time may be replaced.
inline constexpr Ms kClaimPatience = 30000;

// The problem with the samples of one step.
enum class Poison { kNone, kCrashes, kNotFinite, kUnusable };

// When NCCL fails, with errors that name no peer: on every rank, or on rank 0 alone. Or it hangs.
struct NcclFails {
  Ms from = 0, until = 0;
  bool everywhere = false, hangs = false;
};

// When the samples cannot be read.
struct SamplesAway {
  Ms from = 0, until = 0;
  bool hangs = false;  // reads do not return; else they return errors
  std::string host;    // empty: on all hosts
};

struct Plan {
  std::uint64_t seed = 0;
  protocol::Job job;
  int workers = 2, slots = 1, hosts = 2;
  // True as with TCP (closed socket); false as with shared memory (only the coordinator notices).
  bool peers_see_deaths = false;
  // As between GPUs: each rank has the sums in memory of its own, and no slot changes
  // (exchange/device_hub.hpp).
  bool on_devices = false;
  std::optional<NcclFails> nccl_fails;  // only on devices
  std::optional<SamplesAway> samples_away;
  Ms leaf_ms = 10, exchange_ms = 4, update_ms = 4, write_ms = 20, warm_up_ms = 400, network_ms = 5;
  // Delays until a new name is visible on another host: of claims and addresses, and of checkpoints. A host
  // refreshes its view of each folder by itself.
  Ms lag_ms = 300, checkpoint_lag_ms = 300;
  protocol::CoordinatorConfig timings;
  std::vector<PlannedFault> faults;
  Poison poison = Poison::kNone;
  std::uint64_t poison_step = 0;
  std::string unusable_on;  // the only host with unusable samples; empty: they are unusable everywhere
  int attempts = 1;         // attempts of a run that is stopped
  bool requeued =
      false;  // the next attempt is of the same Slurm job, and need not wait for the mark of the end
  bool early_death =
      false;             // the first coordinator of an attempt dies while it waits for the newest checkpoint
  std::string bad_host;  // trainers cannot start there; empty: no such host
};

Plan make_plan(std::uint64_t seed);

}  // namespace rekindle::sim
