// What must hold after every event. They look at the truth of all processes at once, which no process can.
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
  void trainer_heard(TrainerProcess& trainer, const protocol::ToTrainer& message,
                     const protocol::GenerationId& in, bool aborts);
  void enters(TrainerProcess& trainer, const protocol::Start& start);
  void holds(TrainerProcess& trainer);
  void agrees(TrainerProcess& trainer, std::uint32_t flags);  // after a step
  void parks(TrainerProcess& trainer, const protocol::Parked& word);

  // ---- workers ----
  void worker_acts(WorkerProcess& worker, std::uint64_t newest_term, const protocol::WorkerEvent& event,
                   const protocol::WorkerEffect& effect);

  // ---- coordinators ----
  void coordinator_hears(CoordinatorProcess& coordinator, const protocol::Event& event);
  void coordinator_decides(CoordinatorProcess& coordinator, const std::vector<protocol::Effect>& effects);
  void records(const protocol::StepDone& done);
  void finishes(CoordinatorProcess& coordinator, const protocol::Finish& finish);

  // ---- the shared directory ----
  void commits(CoordinatorProcess& coordinator, const protocol::Commit& commit);
  void deletes(CoordinatorProcess& coordinator, const CheckpointId& id, bool abandoned);
  void sets_aside(const std::string& name, const StoredCheckpoint& stored);

  std::set<std::uint64_t> unrecorded_;  // steps that were made up for after no more than one fault
  std::uint64_t steps_done() const { return highest_done_; }
  Ms got_on_at() const { return got_on_at_; }  // when the newest step was done first
  int generations_formed() const { return formed_; }
  void new_attempt() {
    formed_ = 0;
    verified_.clear();
  }

 private:
  struct Generation {
    protocol::Start start;    // of rank 0
    std::string fingerprint;  // of the first member that entered
    bool stop_known = false, crashed = false;
    std::optional<std::uint64_t> cut;
    std::map<std::uint64_t, std::uint32_t> flags;  // that were agreed, by step
    std::uint64_t reported = 0;
  };
  struct Knowledge {  // what a coordinator was told
    std::set<std::string> registered;
    std::set<std::pair<std::uint64_t, protocol::GenerationId>> open;  // checkpoints under way
    protocol::GenerationId generation;
    std::vector<std::string> moved;  // members that it knew before the event
    protocol::GenerationId adopted;  // of an older term
    Ms adopted_at = 0;
    std::optional<protocol::GenerationId> stale;  // that the event speaks of
    std::uint64_t step = 0;
    std::uint64_t newest_held = 0;  // by the trainers that it told to quit
  };
  void forms(CoordinatorProcess& coordinator, const protocol::Start& start);
  void trusts(const protocol::Start& start);
  void kills(CoordinatorProcess& coordinator, const protocol::KillTrainer& kill);
  void quits(CoordinatorProcess& coordinator, const std::string& trainer);
  void adopts_patiently(CoordinatorProcess& coordinator, const protocol::GenerationId& adopted);
  void ignores(CoordinatorProcess& coordinator, const std::vector<protocol::Effect>& effects);
  int crashes_in_a_row(std::uint64_t term, bool knows_older) const;
  void notes_progress(const protocol::Coordinator& machine, const protocol::FromTrainer& message,
                      const std::vector<std::string>& members);
  void gave_up(CoordinatorProcess& coordinator, const protocol::Finish& finish);

  World& world_;
  std::map<protocol::GenerationId, Generation> generations_;
  std::map<std::string, protocol::GenerationId> entered_;  // by trainer
  std::map<std::uint64_t, Knowledge> known_;               // by term
  std::uint64_t highest_done_ = 0;
  Ms got_on_at_ = 0;
  int flips_noticed_ = 0;          // how many there had been when states were last found unlike
  std::set<std::string> doubted_;  // whose states those were, until they get others
  protocol::GenerationId noticed_in_;
  int formed_ = 0;        // generations of this attempt
  std::string verified_;  // the checkpoint that one of them was last known to go on from
  protocol::GenerationId verified_in_;
  void verifies(const protocol::GenerationId& generation);
};

}  // namespace rekindle::sim
