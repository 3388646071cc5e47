// The coordinator as a pure state machine: (state, time, event) -> effects. No CAF, no clock, no files, no
// threads; its host (actors/coordinator_host) translates. docs/protocol.md shows the states.
#pragma once

#include <chrono>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "protocol/job.hpp"
#include "protocol/messages.hpp"
#include "protocol/witness.hpp"

namespace rekindle::protocol {

using Time = std::chrono::milliseconds;  // of the host's monotonic clock

// ---- events ----

struct WorkerRegistered {
  Registration registration;
};
struct WorkerBeatSeen {
  std::string worker;
  std::vector<TrainerBeat> trainers;  // the beats that its trainers gave since the worker's last one
};
struct WorkerLost {
  std::string worker, why;
};
struct TrainerSaid {
  std::string worker;
  FromTrainer message;
};
struct StopAsked {
  int exit_code = 75;
  std::string why;
  Time within{0};  // 0: no limit
};
struct CommitDone {
  GenerationId generation;
  std::uint64_t step = 0;
  std::string checkpoint;              // directory name
  std::string fingerprint;             // of its writers
  std::string error;                   // empty: committed
  std::vector<std::string> kept = {};  // the checkpoints that are there after the sweep; none: unknown
};
struct Swept {                    // what a Sweep has left
  std::vector<std::string> kept;  // checkpoints; none: unknown
};
struct Fenced {  // a higher term exists: this coordinator is history
  std::uint64_t by_term = 0;
};
struct Tick {};  // a few times a second
using Event = std::variant<WorkerRegistered, WorkerBeatSeen, WorkerLost, TrainerSaid, StopAsked, CommitDone,
                           Swept, Fenced, Tick>;

// ---- effects ----

struct SendTrainer {
  std::string worker, trainer;
  ToTrainer message;
};
struct OrderKill {
  std::string worker;
  KillTrainer kill;
};
struct DismissWorker {
  std::string worker;
  Dismiss dismiss;
};
struct AskToRegister {  // it speaks, but was declared lost: what it knows of its trainers has to be told
                        // again
  std::string worker;
};
struct Commit {  // write the manifest of a checkpoint whose shards are all durable; answer with CommitDone
  GenerationId generation;
  std::uint64_t step = 0;
  std::string digest, fingerprint, tensors;
  std::vector<std::string> shards;  // by rank
  std::vector<std::string> spared;  // checkpoints that no sweep may remove: what the run began with
};
struct Sweep {  // remove what nobody needs, now that `restored` was read whole; answer with Swept
  std::string restored;
  GenerationId generation;  // that went on from it: whatever older ones have not finished is dead
};
struct Abandon {  // remove what was written of a checkpoint that cannot be committed
  GenerationId generation;
  std::uint64_t step = 0;
};
struct SetAside {
  std::string checkpoint;
};
struct Rewind {  // the run goes on from `step`: records of later steps are void
  std::uint64_t step = 0;
};
struct RecordStep {
  StepDone done;
};
struct RecordEvaluation {
  Evaluated evaluated;
};
struct ShowProgress {
  Progress progress;
};
struct Tell {  // a line for the person and the log
  std::string line;
};
struct Warn {
  std::string line;
};
struct Finish {  // the run's processes may go: exit with this
  int exit_code = 0;
  std::string line, hint;
  std::optional<std::uint64_t> stuck_at = {};  // the step that nobody gets past: name its samples
};
using Effect = std::variant<SendTrainer, OrderKill, DismissWorker, AskToRegister, Commit, Sweep, Abandon,
                            SetAside, Rewind, RecordStep, RecordEvaluation, ShowProgress, Tell, Warn, Finish>;

// ---- the machine ----

struct Restorable {
  std::string checkpoint;  // directory name
  std::uint64_t step = 0;
  std::string fingerprint;
};

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
  GenerationId generation() const { return generation_; }

  using CheckpointKey = std::pair<std::uint64_t, GenerationId>;  // step first
  struct Trainer {
    std::string worker;
    TrainerReady ready;
    int rank = -1;                 // in generation(); -1: waits for the next one
    std::optional<Parked> parked;  // for the end of generation()
    TrainerBeat beat;
    Time heard{0}, progressed{0};
    std::uint64_t peak_pss_bytes = 0;
    std::optional<CheckpointKey> writing;  // a shard of it
    std::optional<CheckpointKey> wrote;    // the last one that it reported
    Time writing_since{0};
    bool moving() const { return rank >= 0 && !parked; }
  };
  const std::map<std::string, Trainer>& trainers() const { return trainers_; }
  const std::vector<std::string>& members() const { return members_; }
  std::uint64_t step() const { return step_; }
  std::optional<std::uint64_t> committed_step() const;

 private:
  struct Worker {
    std::string host;
    int slots = 1;
    bool joined = false;
    Time heard{0};
  };
  struct EarlyCrashes {          // of a host's own trainers, before there was any generation
    int count = 0;               // a trainer that is not tried again counts for all tries of its slot
    std::string how;             // the last one ended
    std::optional<Finish> said;  // what the last one that could speak has said
  };
  struct Checkpoint {                     // being written
    std::vector<std::string> writers;     // by rank
    std::map<int, ShardWritten> written;  // by rank
    std::map<std::string, std::string> failed;
    bool committing = false;
    bool parks = false;  // its writers do nothing else
    Witness unsettled;
  };
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
  int rank_of(const std::string& trainer) const;  // a member's
  const Trainer* member(int rank) const;          // nullptr: no such rank, or it is not there any more
  void go_on_if_adopted();
  bool fits(const std::string& worker, const TrainerReady& ready);
  bool shares_memory(const TrainerReady& ready) const;
  void refuse(const std::string& worker, const Finish& why);
  bool joined(const std::string& worker) const;
  bool own_trainer_there() const;
  void lose(const std::vector<std::string>& trainers, const std::string& why);
  void lose_workers(const std::vector<std::string>& workers, const std::string& why);
  void kill(const std::string& trainer, const std::string& why);
  void judge_silence();
  void judge_hangs();
  void judge_stalls();
  void blame(int rank, int other);
  void remember_unrecorded(std::uint64_t step);

  // coordinator_crashes.cpp: trainers that end by themselves, hosts that are left out because of them
  void crashed(const std::string& worker, const std::string& trainer, const std::string& how);
  void leave_out(const std::string& host, const std::string& why);
  std::string host_of(const std::string& worker) const;
  int own_slots(const std::string& host) const;
  bool own_trainer_ready_on(const std::string& host) const;
  bool ends_before_it_begins(const std::string& worker, const TrainerFailed& failed);
  void crashed_early(const std::string& worker, const std::string& how, bool refused);
  Finish early_end(const std::string& what) const;
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
  bool better_commit_under_way() const;
  std::vector<Restorable>::iterator restored();
  void went_on();
  void keep_restorable(const std::vector<std::string>& kept, const std::string& besides);
  void restore_failed(const std::string& why);
  bool try_end();
  Finish saved_finish(std::uint64_t step) const;
  void stop_members();
  void cut_for_newcomers();

  // coordinator_checkpoints.cpp
  void shard_begun(const ShardBegun& begun);
  Checkpoint* checkpoint_of(const GenerationId& generation, std::uint64_t step);
  void judge_writers();
  void save_again_if_lost();
  void shard_reported(const GenerationId& generation, std::uint64_t step, const std::string& trainer,
                      const ShardWritten* written, const std::string& why);
  void state_changed(const ShardFailed& failed);
  void replay(const TrainerState& state);
  void review_checkpoints();
  bool is_committed(std::uint64_t step) const;
  static bool alike(const Checkpoint& checkpoint);
  void abandon(CheckpointKey key);
  bool settled(const CheckpointKey& key, const Checkpoint& checkpoint) const;
  void settle(const CheckpointKey& key);
  void checkpoint_failed(std::uint64_t step, const std::string& why);
  void after_checkpoint();
  const std::vector<std::string>* members_of(const GenerationId& generation) const;

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
  bool is_member(const std::string& trainer) const;
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
  std::map<std::string, Worker> workers_;
  std::map<std::string, Trainer> trainers_;
  std::string fingerprint_;       // of all trainers; before the first generation their bits may still differ
  std::string machine_;           // of a trainer that has this fingerprint
  bool warned_of_other_ = false;  // that a checkpoint has another fingerprint

  // The generation that runs, is coming to a halt, or was the last.
  GenerationId generation_;
  std::vector<std::string> members_;  // by rank
  std::set<std::string> sources_;     // those that held began_ when the generation was formed
  Witness moving_;                    // of members_
  std::set<std::string> gone_;        // trainers that are known to have ended
  std::uint64_t began_ = 0;           // its first step
  std::uint64_t step_ = 0;            // completed, as far as known
  std::uint64_t own_generations_ = 0;
  bool any_formed_ = false;  // by this coordinator or, adopted, by an older one
  std::deque<std::pair<GenerationId, std::vector<std::string>>> past_members_;

  std::map<CheckpointKey, Checkpoint> checkpoints_;
  std::map<std::uint64_t, std::pair<int, std::string>> failed_;  // steps whose checkpoint could not be
                                                                 // written: how often, and why
  bool checkpoint_lost_ = false;  // the last one, with one of its writers; none has begun since
  GenerationId save_asked_;       // of that generation
  Time checkpoint_began_{0};      // the last one; what --checkpoint-interval counts from
  Time write_time_{0};            // of the slowest shard seen
  bool must_restore_ = false;     // what is held in memory is not to be trusted
  GenerationId doubted_;          // whose states those were
  // No later step of doubted_, or of a generation before it, is ever committed.
  std::uint64_t last_good_ = std::numeric_limits<std::uint64_t>::max();
  // The largest number of spare trainers that the person knows of: the start of the run (app/banner.hpp)
  // names those among its own trainers.
  std::size_t spares_reported_ = 0;
  int restore_tries_ = 0, read_tries_ = 0;
  GenerationId restore_judged_;  // whose failure to restore has been dealt with
  std::string restored_;         // the checkpoint that generation_ began with, if any
  std::string verified_;         // the last one from which the run went on, so all of it was read
  static constexpr int kReadTries = 5;
  static constexpr Time kReadPause{1000};  // then twice as long each time

  std::optional<StopAsked> stop_;
  Time stop_until_{0};
  bool step_given_up_ = false;
  bool saves_ = false;            // generation_ began when the stop was known: it makes no step
  bool still_gathering_ = false;  // while adopting: where nothing comes of it, no new gather time begins
  std::optional<Finish> ending_;
  bool fenced_ = false, regrouping_ = false, registering_ = false, too_few_ = false;
  std::optional<Time> newcomers_since_;
  bool cut_asked_ = false;
  Time step_time_{0}, last_step_at_{0};  // how long steps take, for a stop in a hurry

  std::string crash_;  // a member crashed by itself in this generation: how
  std::optional<std::uint64_t> crash_step_;
  int crashes_ = 0;  // generations that came no further than crash_step_ because a trainer crashed
  std::set<std::uint64_t> unrecorded_;  // steps that nobody has told yet, though later ones are on record
  std::optional<std::uint64_t> kill_step_;
  int kills_ = 0;                              // of trainers since kill_step_ was reached
  std::map<std::string, EarlyCrashes> early_;  // by host; of those that were not left out
  std::map<std::string, int> host_crashes_;
  std::optional<std::pair<int, int>> suspect_link_;  // ranks: the exchange between them failed first
  std::map<std::pair<std::string, std::string>, int> broken_links_;  // between workers
  std::map<std::string, int> differed_;                              // by trainer
  std::vector<Effect> effects_;
};

}  // namespace rekindle::protocol
