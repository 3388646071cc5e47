// The coordinator as a pure state machine: (state, time, event) -> effects. No CAF, no clock, no files, no
// threads; its host (actors/coordinator_host) translates. docs/protocol.md shows the states.
//
// In this version membership is fixed within a generation: a lost trainer ends the run with an error. A new
// generation forms only when a restore failed.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "protocol/job.hpp"
#include "protocol/messages.hpp"

namespace rekindle::protocol {

using Time = std::chrono::milliseconds;  // of the host's monotonic clock

// ---- events ----

struct WorkerJoined {
  std::string worker, host;
};
struct WorkerBeatSeen {
  std::string worker;
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
};
struct CommitDone {
  GenerationId generation;
  std::uint64_t step = 0;
  std::string checkpoint;  // directory name
  std::string error;       // empty: committed
};
struct Fenced {  // a higher term exists: this coordinator is history
  std::uint64_t by_term = 0;
};
struct Tick {};
using Event =
    std::variant<WorkerJoined, WorkerBeatSeen, WorkerLost, TrainerSaid, StopAsked, CommitDone, Fenced, Tick>;

// ---- effects ----

struct SendTrainer {
  std::string trainer;
  ToTrainer message;
};
struct Commit {  // write the manifest of a checkpoint whose shards are all durable; answer with CommitDone
  GenerationId generation;
  std::uint64_t step = 0;
  std::string digest, fingerprint, tensors;
  std::vector<std::string> shards;  // by rank
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
  int trainers = 0;
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
};
using Effect = std::variant<SendTrainer, Commit, Abandon, SetAside, Rewind, RecordStep, RecordEvaluation,
                            ShowProgress, Tell, Warn, Finish>;

// ---- the machine ----

struct Restorable {
  std::string checkpoint;  // directory name
  std::uint64_t step = 0;
  std::string fingerprint;
};

struct CoordinatorConfig {
  Job job;
  std::uint64_t term = 1;
  int expected_trainers = 1;
  Time gather_time{300000}, lost_after{5000}, park_deadline{10000};
  std::vector<Restorable> restorable;  // newest first
  std::set<std::uint64_t> evaluated;   // steps whose evaluation is on record
};

enum class Phase { kGathering, kRunning, kParking, kQuitting, kEnded };

class Coordinator {
 public:
  Coordinator(CoordinatorConfig config, Time now);

  std::vector<Effect> on(Time now, const Event& event);

  Phase phase() const { return phase_; }
  GenerationId generation() const { return generation_; }

  struct Trainer {
    std::string worker;
    TrainerReady ready;
    int rank = -1;
    std::optional<Parked> parked;
    TrainerBeat beat;
    Time heard{0};
    std::uint64_t peak_pss_bytes = 0;
  };
  const std::map<std::string, Trainer>& trainers() const { return trainers_; }
  const std::vector<std::string>& members() const { return members_; }
  std::uint64_t step() const { return step_; }
  std::optional<std::uint64_t> committed_step() const { return committed_step_; }

 private:
  void handle(const WorkerJoined& event);
  void handle(const WorkerBeatSeen& event);
  void handle(const WorkerLost& event);
  void handle(const TrainerSaid& event);
  void handle(const StopAsked& event);
  void handle(const CommitDone& event);
  void handle(const Fenced& event);
  void handle(const Tick& event);

  void heard(const std::string& worker, const TrainerReady& message);
  void heard(const std::string& worker, const StepDone& message);
  void heard(const std::string& worker, const Evaluated& message);
  void heard(const std::string& worker, const ShardWritten& message);
  void heard(const std::string& worker, const ShardFailed& message);
  void heard(const std::string& worker, const Parked& message);
  void heard(const std::string& worker, const TrainerBeat& message);
  void heard(const std::string& worker, const TrainerFailed& message);
  void heard(const std::string& worker, const TrainerExited& message);

  void try_commit(std::uint64_t step);
  void form();
  void show_members();
  bool other_fingerprint() const;  // than the checkpoint that is being restored
  void stop_members();
  void all_parked();
  void try_end();
  void retry_restore(const std::string& why);
  void give_up(int exit_code, std::string what, std::string hint);
  void abort_members();
  void quit_all();
  void finish_if_quiet();
  std::string resume_hint() const;
  bool everyone_parked() const;  // of the members that are still there
  bool current(const GenerationId& id) const { return phase_ == Phase::kRunning && id == generation_; }
  template <class E>
  void emit(E effect) {
    effects_.emplace_back(std::move(effect));
  }

  CoordinatorConfig config_;
  Phase phase_ = Phase::kGathering;
  Time now_{0}, gather_until_{0}, park_until_{0}, ticked_{0}, shown_{-1000000};
  GenerationId generation_;
  std::map<std::string, Time> workers_;  // when last heard
  std::map<std::string, Trainer> trainers_;
  std::vector<std::string> members_;  // by rank
  std::uint64_t step_ = 0;
  std::optional<std::uint64_t> committed_step_;
  struct Pending {                        // a checkpoint whose writers have not all reported
    std::map<int, ShardWritten> written;  // by rank
    std::set<std::string> failed;         // trainers that could not write
    std::string why;
  };
  std::map<std::uint64_t, Pending> pending_;     // by step
  std::map<std::uint64_t, std::string> failed_;  // checkpoints that could not be written, and why
  std::size_t restore_from_ = 0;  // index into config_.restorable; its size: from initial values
  int restore_tries_ = 0;
  std::optional<StopAsked> stop_;
  std::optional<Finish> ending_;
  std::optional<Time> evidence_until_;  // an exchange failed: time for the coordinator to hear of a death
  std::string evidence_;
  std::vector<Effect> effects_;
};

}  // namespace rekindle::protocol
