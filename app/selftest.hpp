// `rekindle selftest`: whether this installation keeps its promises on this machine. Short runs with made
// data: any number of trainers, each exchange, a killed trainer, a trainer that joins, a stop and a resume,
// and the same digest each time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace rekindle::app {

struct SelftestOptions {
  std::string device = "auto";
  std::uint64_t workers = 0;   // the most trainers at a time; 0: one for each processor, from 2 to 4
  std::filesystem::path keep;  // where the runs are made, and left; empty: a folder that is removed
};

// Prints a line for each check, and a report to paste. Returns the exit code: 0, or 70 if a check has failed.
int run_selftest(const SelftestOptions& options);

}  // namespace rekindle::app
