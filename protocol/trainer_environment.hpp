// What LibTorch, oneDNN, MKL, OpenMP and glibc's libm read from a trainer's environment. These variables can
// change the bits of a gradient, so every trainer of a run gets the values that the run's first attempt had.
#pragma once

#include <string>
#include <vector>

#include "protocol/job.hpp"

namespace rekindle::protocol {

using Environment = std::vector<std::string>;  // entries "NAME=value"

// The entries of `environment` that a run records (Job::environment), sorted by name. Variables that every
// trainer gets from `job` itself are not among them, nor values that are not printable ASCII (run.toml could
// not hold them).
Environment numeric_variables(const Environment& environment, const Job& job);

struct TrainerEnvironment {
  Environment entries;                // the trainer's whole environment
  std::vector<std::string> warnings;  // lines for a person
};
// The environment of a trainer whose worker has `inherited`: what `job` fixes, what the first attempt
// recorded, and of `inherited` everything that no numeric library reads.
TrainerEnvironment trainer_environment(const Environment& inherited, const Job& job);

}  // namespace rekindle::protocol
