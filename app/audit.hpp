// rekindle audit: the steps between two kept checkpoints, made once more.
#pragma once

#include <cstdint>
#include <filesystem>

namespace rekindle::app {

struct AuditOptions {
  std::filesystem::path run_dir;
  std::uint64_t from = 0, to = 0;  // steps of committed checkpoints; from 0: the initial values
  std::uint64_t workers = 1;
};

// Trains from the one to the other in a directory of its own in the run directory, and compares the bits. The
// exit code: 0 if they are the same, 70 if they differ and for nothing else. The run may go on meanwhile.
int run_audit(const AuditOptions& options);

}  // namespace rekindle::app
