// The invariants that must hold after every event. The checks see the state of all processes at once, which
// no real process can.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "disk.hpp"
#include "protocol/coordinator.hpp"
#include "protocol/worker.hpp"

namespace rekindle::sim {

class World;
class TrainerProcess;
class WorkerProcess;
class CoordinatorProcess;

class Checks {
 public:
  explicit Checks(World& world) : world_(world) {}

  // ---- trainers ----
  void on_trainer_message(TrainerProcess& trainer, const protocol::ToTrainer& message,
                          const protocol::GenerationId& in, bool aborts);
  void enters(TrainerProcess& trainer, const protocol::Start& start);
  void holds(TrainerProcess& trainer);
  void computes(TrainerProcess& trainer, std::uint64_t step);
  void pauses(TrainerProcess& trainer, const protocol::Paused& report);

  // ---- workers ----
  void worker_acts(WorkerProcess& worker, std::uint64_t newest_term, const protocol::WorkerEvent& event,
                   const protocol::WorkerEffect& effect);

  // ---- coordinators ----
  void on_coordinator_event(CoordinatorProcess& coordinator, const protocol::Event& event);
  void coordinator_decides(CoordinatorProcess& coordinator, const std::vector<protocol::Effect>& effects);
  void records(const protocol::StepDone& done);
  void finishes(CoordinatorProcess& coordinator, const protocol::Finish& finish);

  // ---- the shared directory ----
  void claims(const CoordinatorProcess& coordinator);
  void attempt_begins(const protocol::CoordinatorConfig& known);
  void notes(const CoordinatorProcess& coordinator, const CheckpointId& id);
  void commits(CoordinatorProcess& coordinator, const protocol::Commit& commit);
  void deletes(CoordinatorProcess& coordinator, const CheckpointId& id, bool abandoned);
  void sets_aside(const std::string& name, const StoredCheckpoint& stored);

  std::set<std::uint64_t> unrecorded_;  // steps that must still be reported after at most one fault
  std::uint64_t steps_done() const { return highest_done_; }
  Ms got_on_at() const { return got_on_at_; }  // when the newest step was completed for the first time
  int generations_formed() const { return formed_; }
  void new_attempt() {
    formed_ = 0;
    verified_.clear();
  }

 private:
  struct Generation {
    protocol::Start start;    // the Start of rank 0
    std::string fingerprint;  // fingerprint of the first member that entered
    bool stop_known = false, crashed = false;
    std::optional<std::uint64_t> paused_after;
    std::optional<std::uint64_t> computed;  // the newest step that a member has begun
    std::uint64_t reported = 0;
  };
  // The information that a coordinator has received.
  struct Knowledge {
    std::set<std::string> registered;
    protocol::GenerationId newest_registered;  // the newest that a trainer has registered with
    std::set<std::pair<std::uint64_t, protocol::GenerationId>> open;  // checkpoints that are being written
    protocol::GenerationId generation;
    std::vector<std::string> moved;  // members before the event
    protocol::GenerationId adopted;  // the adopted generation of an older term
    Ms adopted_at = 0;
    std::optional<protocol::GenerationId> stale;  // the older generation that the event is about
    bool gathered = false;                        // gathering before the event
    std::uint64_t step = 0;
    std::uint64_t newest_held = 0;  // newest step of the trainers to which Quit was sent
    std::map<protocol::GenerationId, std::uint64_t>
        changed;  // the first step whose state has changed in memory
  };
  void forms(CoordinatorProcess& coordinator, const protocol::Start& start);
  void trusts(const protocol::Start& start);
  void kills(CoordinatorProcess& coordinator, const protocol::KillTrainer& kill);
  void writer_killed(CoordinatorProcess& coordinator, const TrainerProcess& writer);
  void quits(CoordinatorProcess& coordinator, const std::string& trainer);
  void adopts_patiently(CoordinatorProcess& coordinator, const protocol::GenerationId& adopted);
  void ignores(CoordinatorProcess& coordinator, const std::vector<protocol::Effect>& effects);
  int crashes_in_a_row(std::uint64_t term, bool knows_older) const;
  void notes_progress(const protocol::Coordinator& machine, const protocol::FromTrainer& message,
                      const std::vector<std::string>& members);
  bool may_give_up(CoordinatorProcess& coordinator, protocol::EndCause cause) const;

  World& world_;
  std::map<protocol::GenerationId, Generation> generations_;
  std::map<std::string, protocol::GenerationId> entered_;         // by trainer
  std::map<std::uint64_t, Knowledge> known_;                      // by term
  std::map<std::uint64_t, const CoordinatorProcess*> in_charge_;  // by term
  std::uint64_t highest_done_ = 0;
  Ms got_on_at_ = 0;
  int flips_noticed_ = 0;           // number of flips when a mismatch of states was last reported
  std::set<std::string> suspects_;  // the trainers with these states, until they get another state
  protocol::GenerationId noticed_in_;
  int formed_ = 0;        // generations formed in this attempt
  std::string verified_;  // the last checkpoint from which a generation made progress
  protocol::GenerationId verified_in_;
  void verifies(const protocol::GenerationId& generation);
  void sees_its_term(const CoordinatorProcess& coordinator, const std::string& what);
  static void notes_change(const protocol::Coordinator& machine, Knowledge& known,
                           const protocol::FromTrainer& message);
  void orders(const Knowledge& known, const protocol::Commit& commit);
};

}  // namespace rekindle::sim
