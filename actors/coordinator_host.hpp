// The actor around protocol::Coordinator: messages in, effects out, no decisions here.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>

#include "actors/coordinator.hpp"
#include "actors/event_records.hpp"
#include "actors/interfaces.hpp"
#include "actors/run_records.hpp"
#include "actors/run_status.hpp"
#include "base/channel.hpp"
#include "base/result.hpp"
#include "protocol/coordinator.hpp"

namespace rekindle::actors {

// How the run ended; the actor sets it, the process's main thread waits for it.
class CoordinatorEnd {
 public:
  void set(int exit_code, std::string line, std::uint64_t step, bool may_pass) {
    const std::scoped_lock lock(mutex_);
    if (set_) return;
    set_ = true;
    exit_code_ = exit_code;
    line_ = std::move(line);
    step_ = step;
    may_pass_ = may_pass;
    changed_.notify_all();
  }
  // The supervisor has died: this coordinator ends, but the run continues.
  void orphan(std::uint64_t step) {
    {
      const std::scoped_lock lock(mutex_);
      if (!set_) orphaned_ = true;
    }
    set(static_cast<int>(ExitCode::kGaveUp), "the supervisor is gone", step, false);
  }
  bool is_set() {
    const std::scoped_lock lock(mutex_);
    return set_;
  }
  // False if the run has not ended within this time.
  bool wait_for(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [this] { return set_; });
  }
  // After wait_for() has returned true:
  int exit_code() const { return exit_code_; }
  const std::string& line() const { return line_; }
  std::uint64_t step() const { return step_; }
  bool may_pass() const { return may_pass_; }
  bool orphaned() const { return orphaned_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false, orphaned_ = false, may_pass_ = false;
  int exit_code_ = 0;
  std::string line_;
  std::uint64_t step_ = 0;
};

struct CoordinatorParts {
  const CoordinatorOptions& options;
  protocol::CoordinatorConfig config;
  RecordWriter& writer;
  RunRecords& records;
  EventRecords& events;
  RunStatus& status;
  Channel& supervisor;
  CoordinatorEnd& end;
};

// Detached: the actor appends to files, which must not block the network's threads.
LocalCoordinator spawn_coordinator(caf::actor_system& system, CoordinatorParts parts);

}  // namespace rekindle::actors
