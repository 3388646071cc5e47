// The worker as a pure state machine: it keeps its slots filled with trainers, carries words between them and
// whichever coordinator holds the newest term, and remembers enough for one that knows nothing.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "protocol/coordinator.hpp"
#include "protocol/messages.hpp"

namespace rekindle::protocol {

struct WorkerConfig {
  std::string worker, host, build;  // worker: random, never reused
  int slots = 1;
  bool joined = false;  // to help a run that is not its own
  std::uint64_t least_term = 0;
  Time beat{500}, slowest_beat{1250};  // between two heartbeats; more in generations of many trainers
  Time first_restart{1000}, last_restart{60000};  // of a trainer that crashed: doubled each time
  Time killed_restart{100};  // of one that was killed from outside; more often in a row, as if it had crashed
  Time steady{60000};        // alive so long: its earlier crashes are forgotten
  Time warm_up_limit{600000};  // of a trainer: then it is killed, and another one started
  Time alone_limit{600000};    // without a coordinator
  Time welcome_limit{60000};   // connected, without an answer to the registration: then it begins anew
};

// ---- events ----

struct TermSeen {  // a coordinator of this term says where it is
  std::uint64_t term = 0;
};
struct Connected {
  std::uint64_t term = 0;
};
struct Disconnected {  // or could not be connected
  std::uint64_t term = 0;
};
struct Welcomed {
  std::uint64_t term = 0;
  std::string refused;  // empty: registered
};
struct AskedToRegister {  // the coordinator declared this worker lost: it has to say again what it knows
  std::uint64_t term = 0;
};
struct OrderedForTrainer {
  std::uint64_t term = 0;
  ForTrainer order;
};
struct OrderedKill {
  std::uint64_t term = 0;
  KillTrainer order;
};
struct Dismissed {
  std::uint64_t term = 0;
  Dismiss order;
};
struct OwnTrainerSaid {
  std::string trainer;
  FromTrainer message;
};
struct OwnTrainerEnded {
  std::string trainer;
  bool by_signal = false;
  int code = 0;
};
struct WorkerTick {};
using WorkerEvent =
    std::variant<TermSeen, Connected, Disconnected, Welcomed, AskedToRegister, OrderedForTrainer, OrderedKill,
                 Dismissed, OwnTrainerSaid, OwnTrainerEnded, WorkerTick>;

// ---- effects ----

struct Connect {
  std::uint64_t term = 0;
};
struct SendRegistration {  // first on a new connection; the answer is Welcomed
  std::uint64_t term = 0;
  Registration registration;
};
struct SendReport {
  std::uint64_t term = 0;
  FromTrainer message;
};
struct SendBeat {
  std::uint64_t term = 0;
  std::vector<TrainerBeat> trainers;
};
struct PassOn {  // to one of its trainers
  std::string trainer;
  ToTrainer message;
};
struct StartTrainer {
  std::string trainer;
};
struct EndTrainer {  // SIGKILL
  std::string trainer;
};
struct LeaveRun {  // ends its trainers; the process exits
  int exit_code = 0;
  std::string why;
};
using WorkerEffect = std::variant<Connect, SendRegistration, SendReport, SendBeat, PassOn, StartTrainer,
                                  EndTrainer, LeaveRun, Warn>;

class Worker {
 public:
  Worker(WorkerConfig config, Time now);

  std::vector<WorkerEffect> on(Time now, const WorkerEvent& event);

  bool registered() const { return registered_; }
  std::uint64_t term() const { return term_; }
  std::size_t trainers() const { return trainers_.size(); }

 private:
  struct Slot {
    std::string trainer;  // empty: none
    int crashes = 0;
    int kills = 0;                 // in a row, before one of them made a step
    std::optional<Time> start_at;  // the next one
    Time started{0};
    bool done = false;    // it left because it was told to, or cannot work here
    bool proven = false;  // one has been ready
  };
  struct Trainer {
    std::size_t slot = 0;
    bool ready = false;
    TrainerState state;
    std::optional<TrainerBeat> fresh_beat;
  };

  void handle(const TermSeen& event);
  void handle(const Connected& event);
  void handle(const Disconnected& event);
  void handle(const Welcomed& event);
  void handle(const AskedToRegister& event);
  void handle(const OrderedForTrainer& event);
  void handle(const OrderedKill& event);
  void handle(const Dismissed& event);
  void handle(const OwnTrainerSaid& event);
  void handle(const OwnTrainerEnded& event);
  void handle(const WorkerTick& event);

  Time beat_among(std::size_t trainers) const;
  Time backoff(int failures) const;
  void remember(Trainer& trainer, const FromTrainer& message);
  void report(const FromTrainer& message);
  void register_again();
  void fill_slots();
  void end_those_that_never_get_ready();
  bool obeys(std::uint64_t term) const;
  template <class E>
  void emit(E effect) {
    effects_.emplace_back(std::move(effect));
  }

  WorkerConfig config_;
  Time now_{0}, ticked_{0}, next_beat_{0}, alone_since_{0};
  Time asked_at_{0};  // for an answer to the registration
  Time beat_{0};
  std::uint64_t term_ = 0;  // the highest that it has seen; the only one that it obeys
  bool connecting_ = false, connected_ = false, registered_ = false, leaving_ = false;
  std::uint64_t started_ = 0;
  std::vector<Slot> slots_;
  std::map<std::string, Trainer> trainers_;
  std::deque<FromTrainer> missed_;  // what a new coordinator wants to hear: steps, evaluations, ends
  std::vector<WorkerEffect> effects_;
};

}  // namespace rekindle::protocol
