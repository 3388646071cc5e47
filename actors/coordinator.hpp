// The coordinator process: hosts protocol::Coordinator.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/files.hpp"
#include "base/result.hpp"
#include "protocol/job.hpp"
#include "run/layout.hpp"

namespace rekindle::actors {

struct CoordinatorOptions {
  run::Layout layout;
  protocol::Job job;
  int expected_trainers = 1;
  std::uint64_t attempt = 0;  // 0: a new one; otherwise a coordinator of that attempt has died before
  std::string old_stop;       // the text of a stop.json that is none of this attempt's business
  std::string build;          // workers of another build are refused
  std::uint64_t lost_term =
      0;  // whose supervisor has died: no other is succeeded; 0: whichever is the newest
  std::chrono::milliseconds patience{30000};  // with a silent holder of the run on another host
};

// What a coordinator that was started in place of another exits with if it cannot listen.
inline constexpr int kCannotListen = 4;

// Claims a term, serves until the run (or this attempt) ends, and tells the supervisor how. Returns the exit
// code.
int run_coordinator(const CoordinatorOptions& options, Fd supervisor_socket);

}  // namespace rekindle::actors
