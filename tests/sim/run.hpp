// Runs schedules.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "base/planted.hpp"
#include "coverage.hpp"
#include "world.hpp"

namespace rekindle::sim {

Outcome run_plan(const Plan& plan, Coverage& coverage, std::ostream* transcript = nullptr);
Outcome run_schedule(std::uint64_t seed, Coverage& coverage, std::ostream* transcript = nullptr);

struct Totals {
  std::uint64_t schedules = 0, steps = 0, faults = 0, events = 0, failed_seed = 0;
  std::uint64_t bits_unknown = 0;  // schedules that ended at a flipped bit that no check could notice
  std::string violation;           // of the first failed schedule
};
// Runs seeds first, first + stride, ...; ends at the first violation.
Totals run_schedules(std::uint64_t first, std::uint64_t stride, std::uint64_t count, Coverage& coverage);

struct NamedBug {
  Bug bug;
  const char* name;
};
extern const NamedBug kBugs[30];

}  // namespace rekindle::sim
