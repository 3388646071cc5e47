// The worker as a pure state machine. It keeps a trainer in each of its slots, forwards messages between the
// trainers and the coordinator with the newest term, and stores enough to inform a new coordinator.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "protocol/coordinator.hpp"
#include "protocol/messages.hpp"
#include "protocol/passed_on.hpp"

namespace rekindle::protocol {

struct WorkerConfig {
  std::string worker, host, build;  // `worker`: a random name, never reused
  int slots = 1;
  bool joined = false;                // a worker of `rekindle join`
  std::uint64_t directory_inode = 0;  // of the run directory; 0: unknown
  std::uint64_t least_term = 0;
  Time beat{500}, slowest_beat{1250};  // interval of heartbeats; longer in generations of many trainers
  // Delay before a crashed trainer is replaced, doubled each time.
  Time first_restart{1000}, last_restart{60000};
  // Delay after a kill from outside. After several kills in a row, the delay for crashes applies.
  Time killed_restart{100};
  Time steady{60000};          // after this run time, earlier crashes are forgotten
  Time warm_up_limit{600000};  // limit for the start of a trainer; then the trainer is killed and replaced
  Time alone_limit{600000};    // limit without a coordinator
  // Limit for the answer to a registration; then the worker process exits and is restarted.
  Time welcome_limit{60000};
};

// ---- events ----

// A coordinator of this term has published its address.
struct TermSeen {
  std::uint64_t term = 0;
};
struct Connected {
  std::uint64_t term = 0;
};
// The connection broke or could not be made.
struct Disconnected {
  std::uint64_t term = 0;
};
struct Welcomed {
  std::uint64_t term = 0;
  std::string refused;  // empty: registered
};
struct OrderedForTrainer {
  std::uint64_t term = 0;
  std::string trainer;
  Order order;
};
struct OwnTrainerReported {
  std::string trainer;
  Report report;
};
struct OwnTrainerEnded {
  std::string trainer;
  bool by_signal = false;
  int code = 0;
};
struct WorkerTick {};
using WorkerEvent =
    std::variant<TermSeen, Connected, Disconnected, Welcomed, RegisterAgain, OrderedForTrainer, KillTrainer,
                 Dismiss, OwnTrainerReported, OwnTrainerEnded, WorkerTick>;

// ---- effects ----

struct Connect {
  std::uint64_t term = 0;
};
// The first message on a new connection; Welcomed is the answer.
struct SendRegistration {
  std::uint64_t term = 0;
  Registration registration;
};
struct SendReport {
  std::uint64_t term = 0;
  std::string message;  // an encoded FromTrainer
};
struct SendBeat {
  std::uint64_t term = 0;
  std::vector<TrainerBeat> trainers;
};
// Forward to one of its trainers.
struct PassOn {
  std::string trainer;
  std::string message;  // an encoded ToTrainer
};
struct StartTrainer {
  std::string trainer;
};
// End all trainers and exit the process.
struct LeaveRun {
  int exit_code = 0;
  std::string why;
};
using WorkerEffect = std::variant<Connect, SendRegistration, SendReport, SendBeat, PassOn, StartTrainer,
                                  KillTrainer, LeaveRun, Warn>;

struct WorkerTimes {
  Time now{0}, ticked{0}, next_beat{0};
  Time alone_since{0};    // without a coordinator
  Time registered_at{0};  // when the last registration was sent
  Time beat{0};           // interval of heartbeats
};

class Worker {
 public:
  Worker(WorkerConfig config, Time now);

  std::vector<WorkerEffect> on(Time now, const WorkerEvent& event);

  bool registered() const { return link_ == Link::kRegistered; }
  std::uint64_t term() const { return term_; }
  std::size_t trainers() const { return trainers_.size(); }

 private:
  // The connection to the coordinator of `term_`.
  enum class Link { kNone, kConnecting, kConnected, kRegistered };
  struct Slot {
    std::string trainer;  // empty: none
    int crashes = 0;
    int kills = 0;                 // kills in a row without a step in between
    std::optional<Time> start_at;  // when the next trainer starts
    Time started{0};
    bool done = false;    // the trainer exited after Quit, or cannot work here
    bool proven = false;  // a trainer of this slot has been ready
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
  void handle(const RegisterAgain& order);
  void handle(const OrderedForTrainer& event);
  void handle(const KillTrainer& order);
  void handle(const Dismiss& order);
  void handle(const OwnTrainerReported& event);
  void handle(const OwnTrainerEnded& event);
  void handle(const WorkerTick& event);

  Time beat_among(std::size_t trainers) const;
  Time restart_delay(int failures) const;
  void remember(Trainer& trainer, const Remembered& message);
  void report(const Report& report);
  void register_again();
  void fill_slots();
  void end_trainers_that_never_get_ready();
  bool obeys(std::uint64_t term) const;
  template <class E>
  void emit(E effect) {
    effects_.emplace_back(std::move(effect));
  }

  bool connected() const { return link_ == Link::kConnected || link_ == Link::kRegistered; }

  WorkerConfig config_;
  WorkerTimes times_;
  std::uint64_t term_ = 0;  // the highest term seen; orders of other terms are ignored
  Link link_ = Link::kNone;
  bool leaving_ = false;
  std::uint64_t started_ = 0;  // trainers
  std::vector<Slot> slots_;
  std::map<std::string, Trainer> trainers_;
  std::deque<std::string> missed_;  // reports for the next coordinator: steps and evaluations
  std::vector<WorkerEffect> effects_;
};

}  // namespace rekindle::protocol
