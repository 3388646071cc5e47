// What is counted of a run's events, for programs that watch it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "board/totals.hpp"

namespace rekindle::board {

using Milliseconds = std::int64_t;  // since 1970

struct Counts {
  std::map<std::string, std::uint64_t> recoveries;  // by cause
  Durations recovery_seconds;                       // of each recovery that took time
  std::uint64_t bytes_saved = 0, attempts = 0, requeues = 0;
  std::uint64_t steps_lost = 0;            // that were made again
  std::optional<Milliseconds> saved_at;    // the newest checkpoint
  std::optional<Milliseconds> time_limit;  // of the newest attempt's Slurm job
};

// `now`, but no count is lower than in `before`: the counts of the same run from a longer record.
Counts at_least(const Counts& before, Counts now);

}  // namespace rekindle::board
