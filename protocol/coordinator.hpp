// The coordinator as a pure state machine: (state, time, event) -> effects. No CAF, no clock, no files, no
// threads; its host (actors/coordinator_host) translates. docs/protocol.md shows the states.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "protocol/checkpoint_ledger.hpp"
#include "protocol/events.hpp"
#include "protocol/fault_policy.hpp"
#include "protocol/generation.hpp"
#include "protocol/job.hpp"
#include "protocol/membership.hpp"
#include "protocol/messages.hpp"
#include "protocol/step_log.hpp"
#include "protocol/stop_plan.hpp"

namespace rekindle::protocol {

struct CoordinatorConfig {
  Job job;
  std::uint64_t term = 1;
  int expected_trainers = 1;  // that the first generation of an attempt waits for
  bool restarted = false;     // an older coordinator of this attempt may have left a generation running
  Time gather_time{300000};   // for trainers to come, at first and when there are too few
  Time regroup_time{30000};   // for trainers that are restarted, when nobody is left
  Time adopt_time{60000};     // for the members of a running generation to register with a new coordinator
  Time lost_after{5000};      // without a heartbeat
  Time park_deadline{20000};  // for the members to park after an abort
  Time hang_after{600000};    // without progress, waiting for nobody
  Time stall_after{30000};    // everybody waits for somebody: their data links are broken
  Time link_pause{1000};      // before the next try, after an exchange failed though nobody died
  Time join_batch{500};       // for more newcomers, after the first
  Time quit_deadline{10000};
  std::vector<Restorable> restorable;  // committed checkpoints, newest first
  std::set<std::uint64_t> evaluated;   // steps whose evaluation is on record
  std::uint64_t recorded_step = 0;     // the newest in the records
  Time unsaved{0};                     // since the newest checkpoint, if an older coordinator made it
};

enum class Phase {
  kGathering,  // no generation: too few trainers
  kAdopting,   // a running generation was found, and not all of its members have registered
  kRunning,
  kParking,   // the generation is over; its members are coming to a halt
  kQuitting,  // the run is over; its trainers are leaving
  kEnded,
};
const char* to_text(Phase phase);

class Coordinator {
 public:
  Coordinator(CoordinatorConfig config, Time now);

  std::vector<Effect> on(Time now, const Event& event);

  Phase phase() const { return phase_; }
  // How the run ends, once that is decided.
  const std::optional<Finish>& ending() const { return ending_; }
  GenerationId generation() const { return generation_.id; }

  const std::map<std::string, KnownTrainer>& trainers() const { return there_.trainers; }
  const std::vector<std::string>& members() const { return generation_.members; }
  std::uint64_t step() const { return step_; }
  std::optional<std::uint64_t> committed_step() const;

 private:
  struct Origin {  // what a generation starts from
    std::uint64_t step = 0;
    std::set<std::string> holders;
    const Restorable* restore = nullptr;
  };

  // coordinator.cpp: events, time, the end
  void handle(const WorkerRegistered& event);
  void handle(const WorkerBeatSeen& event);
  void handle(const WorkerLost& event);
  void handle(const TrainerSaid& event);
  void handle(const StopAsked& event);
  void handle(const CommitDone& event);
  void handle(const Swept& event);
  void handle(const Fenced& event);
  void handle(const Tick& event);
  void forgive_own_delay();
  void check_deadlines();
  bool run_is_complete() const;
  void gather_time_is_over();
  void give_up_step_if_short();
  void give_up(Finish finish);  // aborts what runs
  void end(Finish finish);      // everybody stands still already
  void quit_all();
  void finish_if_quiet();
  std::string resume_hint() const;

  // coordinator_members.cpp: who is there, and who is not any more
  void admit(const std::string& worker, const TrainerState& state);
  bool belongs(const TrainerState& state);
  void adopt(const Start& started);
  void wait_for_members();
  std::optional<Parked> waiting_source(const std::string& trainer, const std::optional<Parked>& parked) const;
  const KnownTrainer* member(int rank) const;  // nullptr: no such rank, or it is not there any more
  void go_on_if_adopted();
  bool fits(const std::string& worker, const TrainerReady& ready);
  bool shares_memory(const TrainerReady& ready) const;
  void refuse(const std::string& worker, const Finish& why);
  void lose(const std::vector<std::string>& trainers, const std::string& why);
  void lose_workers(const std::vector<std::string>& workers, const std::string& why);
  void kill(const std::string& trainer, const std::string& why);
  void judge_silence();
  void judge_hangs();
  void judge_stalls();
  void blame(int rank, int other);
  void warn_of_altered_data(const Parked& message);

  // coordinator_crashes.cpp: trainers that end by themselves, hosts that are left out because of them
  void crashed(const std::string& worker, const std::string& trainer, const std::string& how);
  void leave_out(const std::string& host, const std::string& why);
  bool ends_before_it_begins(const std::string& worker, const TrainerFailed& failed);
  void crashed_early(const std::string& worker, const std::string& how, bool refused);
  void judge_early_crashes();
  void judge_crashes();
  void killed();

  // coordinator_fingerprints.cpp: who may train together. `bits`: the numeric handshake's hash counts, too.
  bool alike(const TrainerReady& ready, bool bits) const;
  void take_fingerprint(const TrainerReady& ready, bool bits);
  bool choose_bits();
  Finish unlike(const TrainerReady& ready) const;
  bool other_fingerprint(const Restorable& restorable) const;
  void warn_of_other_fingerprint(const Restorable& restorable);

  // coordinator_generations.cpp
  void abort_members();
  bool everyone_parked() const;  // of the members that are still there
  void regroup();
  void judge_generation();
  void form_if_possible();
  bool enough_trainers() const;
  void wait_for_trainers();
  Origin origin() const;
  bool nothing_to_save(const Origin& origin) const;
  void form();
  std::vector<std::string> choose_members(const Origin& origin) const;
  void show_members(const Origin& origin);
  void states_differ(const std::vector<std::string>& suspects);
  void roll_back(const std::vector<std::string>& suspects, const std::string& what);
  void stop_doubted();
  void restore_unreadable(const std::string& why);
  bool left_by_itself(int rank) const;
  void went_on();
  void restore_failed(const std::string& why);
  bool try_end();
  Finish saved_finish(std::uint64_t step) const;
  void stop_members();
  void cut_for_newcomers();

  // coordinator_checkpoints.cpp
  void shard_begun(const ShardBegun& begun);
  OpenCheckpoint* checkpoint_of(const GenerationId& generation, std::uint64_t step);
  void judge_writers();
  void save_again_if_lost();
  void shard_reported(const GenerationId& generation, std::uint64_t step, const std::string& trainer,
                      const ShardWritten* written, const std::string& why);
  void state_changed(const ShardFailed& failed);
  void replay(const TrainerState& state);
  void review_checkpoints();
  void abandon(CheckpointKey key);
  bool settled(const CheckpointKey& key, const OpenCheckpoint& checkpoint) const;
  void settle(const CheckpointKey& key);
  void after_checkpoint();

  // coordinator_reports.cpp
  void heard(const std::string& worker, const TrainerReady& message);
  void heard(const std::string& worker, const StepDone& message);
  void heard(const std::string& worker, const StepsDone& message);
  void heard(const std::string& worker, const Evaluated& message);
  void heard(const std::string& worker, const ShardBegun& message);
  void heard(const std::string& worker, const ShardWritten& message);
  void heard(const std::string& worker, const ShardFailed& message);
  void heard(const std::string& worker, const Parked& message);
  void heard(const std::string& worker, const TrainerBeat& message);
  void heard(const std::string& worker, const TrainerFailed& message);
  void heard(const std::string& worker, const TrainerExited& message);

  void send(const std::string& trainer, ToTrainer message);
  // A message of the generation that runs or is coming to a halt.
  bool current(const GenerationId& id) const;
  template <class E>
  void emit(E effect) {
    effects_.emplace_back(std::move(effect));
  }

  CoordinatorConfig config_;
  Phase phase_ = Phase::kGathering;
  Time began_at_{0}, now_{0}, ticked_{0}, shown_{-1000000};
  Time wait_until_{0};    // of the gathering, adopting, parking or quitting under way
  Time gather_until_{0};  // of a gathering: then the run ends
  Time hold_until_{0};    // no generation before
  Membership there_;
  std::string fingerprint_;       // of all trainers; before the first generation their bits may still differ
  std::string machine_;           // of a trainer that has this fingerprint
  bool warned_of_other_ = false;  // that a checkpoint has another fingerprint

  Generation generation_;   // that runs, is coming to a halt, or was the last
  std::uint64_t step_ = 0;  // completed, as far as known
  std::uint64_t own_generations_ = 0;
  bool any_formed_ = false;  // by this coordinator or, adopted, by an older one
  PastGenerations past_;
  CheckpointLedger ledger_;
  // The largest number of spare trainers that the person knows of: the start of the run (app/banner.hpp)
  // names those among its own trainers.
  std::size_t spares_reported_ = 0;
  StopPlan stop_;
  bool still_gathering_ = false;  // while adopting: where nothing comes of it, no new gather time begins
  std::optional<Finish> ending_;
  bool fenced_ = false, regrouping_ = false, registering_ = false;

  FaultPolicy faults_;
  StepLog log_;
  std::vector<Effect> effects_;
};

}  // namespace rekindle::protocol
