// The environment variables of a trainer that LibTorch, oneDNN, MKL, OpenMP and the libm of glibc read. They
// can change the bits of a gradient, so every trainer of a run gets the values of the first attempt.
#pragma once

#include <string>
#include <vector>

#include "protocol/job.hpp"

namespace rekindle::protocol {

using Environment = std::vector<std::string>;  // entries "NAME=value"

// The entries of `environment` that a run records (Job::environment), sorted by name. Excluded are variables
// that `job` itself sets for every trainer, and values that are not printable ASCII (run.toml cannot store
// them).
Environment numeric_variables(const Environment& environment, const Job& job);

struct TrainerEnvironment {
  Environment entries;                // the complete environment of the trainer
  std::vector<std::string> warnings;  // messages for the user
};
// The environment of a trainer whose worker has `inherited`: the values fixed by `job`, the values recorded
// by the first attempt, and all inherited variables that no numeric library reads. `interface`: the name of
// the network interface that Job::interface chooses on this machine; empty: only this machine's trainers
// exchange data.
TrainerEnvironment trainer_environment(const Environment& inherited, const Job& job,
                                       const std::string& interface = {});

// CUDA_VISIBLE_DEVICES of trainer `number` of a machine, where it is `all`. A process sees only the first of
// several parts of GPUs (MIG), so each trainer gets one of them.
std::string visible_gpu(const std::string& all, int number);

}  // namespace rekindle::protocol
