// One process with many nodes of the simulated cluster.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "base/files.hpp"
#include "run/layout.hpp"

namespace rekindle::bench {

struct NodeOptions {
  run::Layout layout;
  int first = 0, nodes = 1, trainers = 8;
  std::uint64_t term = 1;
  std::string build = {};  // of rekindle-control
};

// Reported when all trainers of this process are ready, have their Start, or have the Abort of a generation.
struct Milestone {
  std::string what, generation;
  std::int64_t at_ns = 0;  // time of the last trainer's event
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Milestone, what, generation, at_ns)

// Sends each milestone to `main` until that process ends. Does not return.
void run_nodes(const NodeOptions& options, Fd main);

}  // namespace rekindle::bench
