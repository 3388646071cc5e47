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
  std::uint64_t attempt = 0;  // 0: a new attempt; otherwise the attempt whose coordinator died
  std::string old_stop;       // the text of a stop.json that was written before this attempt
  std::string time_limit;     // when the Slurm job's time is over, as utc_text(); empty: never
  std::string build;          // workers of another build are refused
  // The term whose coordinator and supervisor have died: this coordinator takes over from that term only. 0:
  // the newest term.
  std::uint64_t lost_term = 0;
  std::chrono::milliseconds patience{30000};  // how long to wait for a silent holder on another host
};

// Claims a term, serves until the run (or this attempt) ends, and reports the end to the supervisor. Returns
// the exit code.
int run_coordinator(const CoordinatorOptions& options, Fd supervisor_socket);

}  // namespace rekindle::actors
