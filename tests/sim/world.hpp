// All processes and shared objects of one schedule, and the notifications between them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "checks.hpp"
#include "coverage.hpp"
#include "disk.hpp"
#include "engine.hpp"
#include "exchange.hpp"
#include "model.hpp"
#include "network.hpp"
#include "plan.hpp"

namespace rekindle::sim {

class Supervisor;

// Fingerprints: of the machines of the run, of another build, and of a machine that computes different bits
// for an unknown reason.
inline constexpr const char* kSame = R"({"build":"1","first_gradient":"a"})";
inline constexpr const char* kOtherBuild = R"({"build":"2","first_gradient":"a"})";
inline constexpr const char* kOtherBits = R"({"build":"1","first_gradient":"b"})";

struct Outcome {
  std::string violation;  // empty: no violation
  std::uint64_t steps = 0, events = 0;
  int faults = 0, generations = 0;
  Ms virtual_ms = 0;
  bool bits_unknown = false;  // it ended early, because its bits could not be checked any more
};

class World {
 public:
  World(Plan plan, Coverage& coverage, std::ostream* transcript);
  ~World();

  Outcome run();

  Engine& engine() { return engine_; }
  const Plan& plan() const { return plan_; }
  int attempt() const { return attempt_; }
  Disk& disk() { return disk_; }
  Network& network() { return network_; }
  DataLinks& links() { return links_; }
  Checks& checks() { return checks_; }
  Coverage& coverage() { return coverage_; }
  RightStates& right() { return right_; }
  Meeting& meeting(const protocol::GenerationId& generation, std::size_t ranks);
  void meetings_look_again();

  // ---- processes ----
  TrainerProcess& start_trainer(const std::string& name, WorkerProcess& worker);
  WorkerProcess& start_worker(const std::string& host, bool joined = false,
                              const std::string& fingerprint = kSame);
  CoordinatorProcess& start_coordinator(const std::string& host, Supervisor* supervisor, bool restarted);
  void start_supervisor(const std::string& host, bool takes_over);
  TrainerProcess* trainer(const std::string& name);
  CoordinatorProcess* coordinator_of(std::uint64_t term);
  Supervisor* supervisor() { return supervisor_; }
  CoordinatorProcess* coordinator();  // of the current supervisor; null: none is up
  std::vector<WorkerProcess*> workers();
  std::vector<TrainerProcess*> trainers();
  const std::vector<std::unique_ptr<Process>>& processes() const { return processes_; }

  // ---- events ----
  void worker_ended(WorkerProcess& worker, bool by_signal, int code);
  void claimed(Supervisor& supervisor) { supervisor_ = &supervisor; }  // its coordinator has a term
  void gave_way(Supervisor& supervisor);
  void run_ended(Supervisor& supervisor, const protocol::Finish& finish);
  void trainer_came_to(TrainerProcess& trainer, protocol::TrainerPhase phase);
  void coordinator_came_to(CoordinatorProcess& coordinator, protocol::Phase phase);
  bool poisoned(std::uint64_t step, int leaf) const;
  bool not_finite(std::uint64_t step) const;
  bool unusable(std::uint64_t step, int leaf, const std::string& host) const;
  bool samples_away(const std::string& host) const;

  // ---- faults ----
  int faults() const { return faults_; }
  void fault_lasts_until(Ms when) { last_fault_ = std::max(last_fault_, when); }
  TrainerProcess* focus() const { return focus_; }  // the trainer whose phase triggered the fault
  void cut_off_head(const std::string& host, bool off);
  bool head_is_cut_off(const std::string& host) const {
    const auto found = cut_off_.find(host);
    return found != cut_off_.end() && !found->second.until;
  }
  struct CutOff {
    Ms since = 0;
    std::optional<Ms> until;  // nullopt: it lasts
  };
  // The last time that the host was cut off.
  std::optional<CutOff> last_cut_off(const std::string& host) const {
    const auto found = cut_off_.find(host);
    return found == cut_off_.end() ? std::nullopt : std::optional(found->second);
  }
  // The clock of a host jumps, as when a virtual machine was paused: no process notices it by a gap of its
  // own.
  void clock_jumps(const std::string& host, Ms ms) { clocks_ahead_[host] += ms; }
  Ms clock_ahead(const std::string& host) const {
    const auto found = clocks_ahead_.find(host);
    return found == clocks_ahead_.end() ? 0 : found->second;
  }
  void ask_stop(int exit_code, Ms within, bool by_file);
  void crash_again(int generations) { crash_again_ = generations; }
  void flipped() { ++flips_; }
  int bits_flipped() const { return flips_; }
  void crash_injected() { ++crashes_injected_; }
  int crashes_injected() const { return crashes_injected_; }
  bool was_full() const { return was_full_; }
  void disk_is_full() { was_full_ = true; }
  void storage_is_away(Ms ms) { away_ms_ += ms; }
  Ms was_away() const { return away_ms_; }

  // ---- verdicts ----
  void violated(const std::string& what);
  void bits_are_void(const std::string& why);
  void too_few();
  void samples_stay_away(const protocol::Finish& finish);
  void checks_stop(const protocol::Finish& finish);  // checks that this end was requested

  // ---- the transcript ----
  bool logging() const { return transcript_ != nullptr; }
  void log(const std::string& line);
  void log_event(CoordinatorProcess& coordinator, protocol::Phase before, const protocol::Event& event);

 private:
  void begin_attempt();
  void set_off(const PlannedFault& fault);
  void inject_now(Fault fault);
  void crash_two(const protocol::GenerationId& generation);

  Plan plan_;
  Engine engine_;
  Disk disk_;
  Network network_;
  DataLinks links_;
  RightStates right_;
  Coverage& coverage_;
  std::ostream* transcript_;
  Checks checks_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<TrainerProcess*> trainers_;
  std::vector<WorkerProcess*> workers_;
  std::vector<CoordinatorProcess*> coordinators_;
  std::map<protocol::GenerationId, Meeting> meetings_;
  Supervisor* supervisor_ = nullptr;
  TrainerProcess* focus_ = nullptr;
  std::map<std::string, CutOff> cut_off_;  // by host
  std::map<std::string, Ms> clocks_ahead_;
  std::set<int> stop_codes_;
  int attempt_ = 0, flips_ = 0, crashes_injected_ = 0, crash_again_ = 0, faults_ = 0;
  std::set<protocol::GenerationId> crashed_again_;
  bool was_full_ = false, over_ = false, bits_unknown_ = false;
  Ms last_fault_ = 0, away_ms_ = 0;
  std::string violation_;
};

}  // namespace rekindle::sim
