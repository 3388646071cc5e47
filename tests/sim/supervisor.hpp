// The virtual supervisor: starts and restarts coordinator and workers, and keeps a stop request.
#pragma once

#include <optional>

#include "process.hpp"
#include "protocol/coordinator.hpp"

namespace rekindle::sim {

class CoordinatorProcess;
class WorkerProcess;

class Supervisor : public Process {
 public:
  Supervisor(World& world, std::string name, std::string host, bool takes_over);
  void begin();

  void ask_stop(protocol::StopRun stop);
  bool stop_asked() const { return stop_.has_value(); }
  CoordinatorProcess* coordinator() const { return coordinator_; }
  bool over() const { return over_; }

  void coordinator_is_up(CoordinatorProcess& coordinator);
  void beat_from(CoordinatorProcess& coordinator);
  void coordinator_ended(CoordinatorProcess& coordinator);
  void refused(CoordinatorProcess& coordinator);
  void run_ended(CoordinatorProcess& coordinator, const protocol::Finish& finish);
  void worker_ended(WorkerProcess& worker, bool by_signal, int code);

 protected:
  void ended(bool, int) override {}

 private:
  void tick();
  void start_coordinator();

  bool any_coordinator_, over_ = false;
  CoordinatorProcess* coordinator_ = nullptr;
  Ms last_beat_at_ = 0, ticked_at_ = 0;
  std::optional<protocol::StopRun> stop_;
};

}  // namespace rekindle::sim
