// rekindle audit: repeats the steps between two kept checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>

namespace rekindle::app {

struct AuditOptions {
  std::filesystem::path run_dir;
  std::uint64_t from = 0, to = 0;  // steps of committed checkpoints; from 0: the initial values
  std::uint64_t workers = 1;
  std::filesystem::path data = {};  // where the data set is now; empty: where it was
};

// Trains from `from` to `to` in a separate directory inside the run directory, and compares the bits. The
// exit code is 0 if the bits are equal, and 70 only if they differ. The run may go on meanwhile.
int run_audit(const AuditOptions& options);

}  // namespace rekindle::app
