// The coordinator as a pure state machine: (state, time, event) -> effects. It uses no CAF, clock, file or
// thread; its host (actors/coordinator_host) translates. docs/protocol.md shows the states.
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
#include "protocol/phase.hpp"
#include "protocol/step_log.hpp"
#include "protocol/stop_plan.hpp"

namespace rekindle::protocol {

struct CoordinatorConfig {
  Job job;
  std::uint64_t term = 1;
  int expected_trainers = 1;  // for the first generation of an attempt
  bool restarted = false;     // an older coordinator of this attempt may have left a generation running
  Time gather_time{300000};   // wait for trainers at the start, and while there are too few
  Time regroup_time{30000};   // wait for restarted trainers when too few are there, or none has a state
  Time adopt_time{60000};  // wait for the members of a running generation to register with a new coordinator
  Time lost_after{5000};   // limit without a heartbeat
  Time pause_deadline{20000};  // limit for members to pause after an abort
  Time hang_after{600000};     // limit without progress, for a trainer that does not wait for a peer
  Time stall_after{30000};     // limit when every trainer waits for another one: their data links are broken
  Time link_pause{1000};       // wait before the next generation, if a link failed and both its ends live
  Time join_batch{500};        // wait for more joining trainers after the first one
  Time quit_deadline{10000};
  std::vector<Restorable> restorable;  // committed checkpoints, newest first
  std::set<std::uint64_t> evaluated;   // steps whose evaluation is in the records
  std::uint64_t recorded_step = 0;     // the newest step in the records
  Time unsaved{0};                     // time since the newest checkpoint, if an older coordinator began it
};

struct CoordinatorTimes {
  Time now{0};  // of the event that is being handled
  Time began{0}, ticked{0}, shown{-1000000};
  // When the wait for more trainers ends: the generation is formed of those that are there, or the run ends.
  // Set when the gathering begins, cleared when a generation begins.
  std::optional<Time> gather_until = {};
  Time hold_until{0};      // no generation is formed before this time, unless to write the state of a stop
  Time write_again_at{0};  // that is not tried again before this time
};

struct RunFingerprint {
  std::string text;     // of all trainers; before the first generation, `first_gradient` may still differ
  std::string machine;  // machine of a trainer with this fingerprint
  bool warned_of_other = false;  // a warning was sent that a checkpoint has another fingerprint
};

// What the run has done so far, as this coordinator knows.
struct RunHistory {
  std::uint64_t step = 0;  // newest completed step that was reported
  std::uint64_t own_generations = 0;
  bool any_formed = false;  // formed by this coordinator, or adopted from an older one
  PastGenerations past;
  // The largest number of spare trainers already reported to the user. The start of the run (app/banner.hpp)
  // reports the spares among its own trainers.
  std::size_t spares_reported = 0;
};

class Coordinator {
 public:
  Coordinator(CoordinatorConfig config, Time now);

  std::vector<Effect> on(Time now, const Event& event);

  Activity activity() const;
  Phase phase() const { return phase_.now(); }
  // The result of the run, once decided.
  const std::optional<Finish>& ending() const { return stop_.ending; }
  GenerationId generation() const { return generation_.id; }

  const std::map<std::string, KnownTrainer>& trainers() const { return membership_.trainers; }
  const std::vector<std::string>& members() const { return generation_.members; }
  std::uint64_t step() const { return history_.step; }
  std::optional<std::uint64_t> committed_step() const;

 private:
  // The state from which a generation starts.
  struct Origin {
    std::uint64_t step = 0;
    std::set<std::string> holders;
    const Restorable* restore = nullptr;
  };

  // coordinator.cpp: events and deadlines. Handlers change the parts, and advance() alone goes to
  // another phase.
  // Beside each handler stands which parts it changes, with what it calls (tools/check-changes compares with
  // the code).
  void advance();
  void check() const;
  // Changes all but log.
  void handle(const WorkerRegistered& event);
  // Changes faults, membership.
  void handle(const WorkerBeatSeen& event);
  // Changes membership, phase.
  void handle(const WorkerLost& event);
  // Changes all.
  void handle(const TrainerReported& event);
  // Changes phase, stop, times.
  void handle(const StopRun& event);
  // Changes generation, ledger.
  void handle(const CommitDone& event);
  // Changes ledger.
  void handle(const Swept& event);
  // Changes stop.
  void handle(const Fenced& event);
  // Changes faults, generation, ledger, membership, phase, stop, times.
  void handle(const Tick& event);
  void forgive_own_delay();
  void check_deadlines();
  bool run_is_complete() const;
  void gather();
  void gather_time_is_over();
  void give_up_step_if_short();

  // coordinator_members.cpp: registration and loss of workers and trainers
  void admit(const std::string& worker, const TrainerState& state);
  bool belongs(const TrainerState& state);
  void adopt(const Start& started);
  std::optional<Paused> waiting_source(const std::string& trainer, const std::optional<Paused>& paused) const;
  const KnownTrainer* member(int rank) const;  // nullptr: no such rank, or the trainer is gone
  void go_on_if_adopted();
  bool fits(const std::string& worker, const TrainerReady& ready);
  bool shares_memory(const TrainerReady& ready) const;
  void refuse(const std::string& worker, const Finish& why);
  void lose(const std::vector<std::string>& trainers, const std::string& why);
  void lose_workers(const std::vector<std::string>& workers, const std::string& why);
  void kill(const std::string& trainer, KillCause cause, const std::string& why);
  void judge_stalls();
  void blame(int rank, int other);
  void warn_of_altered_data(const Paused& message);
  bool all_wait_for_samples(const KnownTrainer& reporter) const;

  // coordinator_crashes.cpp: trainers that are silent, hang or crash, and hosts that are excluded for it
  void judge_silence();
  void judge_hangs();
  void crashed(StepCrashes& counts, const std::string& trainer, const std::string& how);
  void leave_out(const std::string& host, const std::string& why);
  bool ends_before_it_begins(const std::string& worker, const TrainerFailed& failed);
  void crashed_early(const std::string& worker, const std::string& how, bool refused);
  void judge_early_crashes();
  void judge_crashes();
  void judge_exchange(std::pair<int, int> link);
  void exchange_failed(const std::string& what);
  bool nccl_hangs_while_connecting();
  void killed(const std::string& trainer);

  // coordinator_fingerprints.cpp: which trainers may train together. `bits`: also compare the hash of the
  // numeric handshake.
  std::string what_counts(const std::string& fingerprint) const;  // to compare trainers by
  bool same_fingerprint(const TrainerReady& ready, bool bits) const;
  void take_fingerprint(const TrainerReady& ready, bool bits);
  bool choose_bits();
  Finish mismatch(const TrainerReady& ready) const;
  bool one_gpu_each();
  bool other_fingerprint(const Restorable& restorable) const;
  void warn_of_other_fingerprint(const Restorable& restorable);

  // coordinator_generations.cpp: when a generation is formed, from which state, of which trainers
  void form_if_possible();
  bool enough_trainers() const;
  bool waited_long_enough() const;  // for more trainers than the minimum
  void wait_for_trainers();
  Origin origin() const;
  bool nothing_to_save(const Origin& origin) const;
  void form();
  std::vector<std::string> choose_members(const Origin& origin) const;
  void show_members(const Origin& origin);
  std::vector<const TrainerReady*> member_reports() const;  // by rank; without those that are gone
  bool nccl_could_serve() const;
  bool without_nccl() const;  // whether the generation goes without NCCL, though NCCL could be used
  void show_idle_gpus();

  // coordinator_ends.cpp: stops, joins and the end of the run
  void stop_members();
  Finish saved_finish(std::uint64_t step) const;
  bool try_end();
  void write_again_later(std::uint64_t step);
  Time latest_write() const;
  void pause_for_newcomers();
  void end(Finish finish);
  void quit_all();
  void hand_over();
  void finish_if_quiet();
  std::string resume_hint() const;

  // coordinator_pauses.cpp: the end of a generation
  void pause_members();
  void judge_pauses();           // the time to pause is over
  bool everyone_paused() const;  // counts only members that are still registered
  void regroup();
  bool left_by_itself(int rank) const;
  void judge_generation();
  void judge_samples();
  void leave_out_for_samples(const std::string& worker, const KnownTrainer& trainer);
  void end_for_samples(const KnownTrainer& trainer);
  void states_differ(const std::vector<std::string>& suspects);
  void went_on();
  void restore_unreadable(const std::string& why);
  void restore_failed(const std::string& why);
  void roll_back(const std::vector<std::string>& suspects, const std::string& what);

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

  // coordinator_reports.cpp
  // Changes faults, fingerprint, membership, phase, stop.
  void on_report(const std::string& worker, const TrainerReady& message);
  // Changes all but fingerprint, phase.
  void on_report(const std::string& worker, const StepDone& message);
  // Changes log.
  void on_report(const std::string& worker, const StepsDone& message);
  // Changes log.
  void on_report(const std::string& worker, const Evaluated& message);
  // Changes faults.
  void on_report(const std::string& worker, const SampleSkipped& message);
  // Changes ledger, membership.
  void on_report(const std::string& worker, const ShardBegun& message);
  // Changes ledger, membership.
  void on_report(const std::string& worker, const ShardWritten& message);
  // Changes faults, generation, ledger, membership, phase.
  void on_report(const std::string& worker, const ShardFailed& message);
  // Changes generation, history, membership, phase.
  void on_report(const std::string& worker, const Paused& message);
  // Changes faults, membership.
  void on_report(const std::string& worker, const TrainerBeat& message);
  // Changes faults, membership, phase, stop.
  void on_report(const std::string& worker, const TrainerFailed& message);
  // Changes faults, generation, membership, phase, stop.
  void on_report(const std::string& worker, const TrainerExited& message);

  void send(const std::string& trainer, ToTrainer message);
  // Whether `id` is the generation that is running or pausing.
  bool current(const GenerationId& id) const;
  template <class E>
  void emit(E effect) {
    effects_.emplace_back(std::move(effect));
  }

  CoordinatorConfig config_;
  RunPhase phase_;
  CoordinatorTimes times_;
  Membership membership_;
  RunFingerprint fingerprint_;
  Generation generation_;  // the generation that is running or pausing, or was the last
  RunHistory history_;
  CheckpointLedger ledger_;
  StopPlan stop_;
  FaultPolicy faults_;
  StepLog log_;
  std::vector<Effect> effects_;
};

}  // namespace rekindle::protocol
