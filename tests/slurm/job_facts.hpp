// Facts about a job, as Slurm reports them.
#pragma once

#include <cstdint>
#include <string>

#include "slurm/commands.hpp"

namespace rekindle::slurm {

inline JobFacts facts(const std::string& state, const std::string& reason = "None",
                      std::uint64_t restarts = 0) {
  JobFacts job;
  job.state = state;
  job.reason = reason;
  job.restarts = restarts;
  return job;
}

}  // namespace rekindle::slurm
