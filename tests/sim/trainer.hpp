// A virtual trainer: a control thread that always answers, and a step loop in virtual time.
#pragma once

#include <coroutine>
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "disk.hpp"
#include "exchange.hpp"
#include "process.hpp"
#include "protocol/trainer_control.hpp"
#include "task.hpp"

namespace rekindle::sim {

class WorkerProcess;

class TrainerProcess : public Process {
 public:
  TrainerProcess(World& world, std::string name, WorkerProcess& worker);
  void begin();

  WorkerProcess& worker() { return worker_; }
  void hear(const protocol::ToTrainer& message);  // its control thread
  void look_again();                              // what the step loop waits for may be there

  // ---- faults ----
  void hang(Ms ms);
  void slow_down(int factor) { slow_ = factor; }
  void flip_bit();
  void fail();  // it cannot go on, says so and exits

  // ---- the truth, for the checks ----
  const protocol::Held& held() const { return held_; }
  State state() const { return state_; }
  bool tainted() const { return tainted_; }
  bool inside() const { return inside_; }  // a generation
  bool ready() const { return ready_; }
  bool hanging() const { return hanging_; }
  protocol::TrainerPhase phase() const { return phase_; }
  const protocol::GenerationId& generation() const { return control_.generation(); }
  const Slot& slot() const { return slot_; }
  bool writes(const CheckpointId& id) const { return writing_ && writing_->id == id; }
  // Since when it has been waiting for a peer, or nothing.
  std::optional<Ms> waiting_since() const;

 protected:
  void ended(bool by_signal, int code) override;

 private:
  enum class Woken { kReady, kAborted, kBroken };
  using Condition = std::function<int()>;  // -1: met; -2: the exchange is broken; else the rank waited for
  struct Pause {                           // the step loop stands still: for a time, or for a condition
    TrainerProcess& trainer;
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> handle) {
      trainer.sleeper_ = handle;
      trainer.look_again();
    }
    Woken await_resume() const { return trainer.woken_; }
  };

  // trainer.cpp
  Pause sleep(Ms ms, bool abortable = true);
  Pause until(Condition condition);
  void wake(std::uint64_t ticket);
  void beat();
  void say(protocol::FromTrainer message);
  void set_phase(protocol::TrainerPhase phase);
  void set_held(protocol::Held held);
  Task<bool> live();
  protocol::Parked parked(protocol::ParkReason reason, int peer = -1);
  protocol::Parked failed(Woken why);

  // step_loop.cpp
  Task<protocol::Parked> run(protocol::Start start);
  Task<Woken> connect();
  Task<Woken> meet(Header mine, std::vector<Header>& all);
  Task<std::optional<protocol::Parked>> reach();
  Task<std::optional<protocol::Parked>> copy();
  Task<std::optional<protocol::Parked>> restore();
  Task<protocol::Parked> train();
  struct Agreed {
    Woken woken = Woken::kReady;
    std::uint32_t flags = 0;
    protocol::Comparison states;
  };
  Task<Agreed> step();
  Task<Woken> compute();
  Task<Woken> read_sums(std::uint64_t& sum, bool& tainted);
  Task<bool> apply(std::uint64_t sum, bool tainted);
  Task<Woken> evaluate(bool& stopped);
  Task<bool> write_checkpoint(bool parks);
  void begin_shard(bool parks);
  void write_shard();
  void finish_shard();
  protocol::ShardWritten shard_written() const;
  std::uint32_t own_flags() const;
  Hash128 state_hash() const;
  int wait_for(const std::function<bool(const Seat&)>& there) const;
  Seat& seat() { return meeting_->seats[static_cast<std::size_t>(start_.rank)]; }

  WorkerProcess& worker_;
  Fifo to_worker_;
  protocol::TrainerControl control_;
  Task<bool> loop_;

  // What the step loop is waiting for.
  std::uint64_t ticket_ = 0;
  std::coroutine_handle<> sleeper_;
  Condition condition_;
  bool abortable_ = false, waking_ = false;
  Woken woken_ = Woken::kReady;
  int broken_peer_ = -1;
  int waits_for_ = -1;
  Ms waiting_since_ = 0;

  bool hanging_ = false, wake_held_back_ = false, news_ = false, ready_ = false, inside_ = false;
  int slow_ = 1;
  protocol::TrainerPhase phase_ = protocol::TrainerPhase::kStarting;
  std::uint64_t progress_ = 0;

  protocol::Held held_;
  State state_ = 0;
  bool tainted_ = false;
  std::deque<protocol::StepDone> history_;
  Slot slot_;
  protocol::Start start_;
  Meeting* meeting_ = nullptr;
  bool saved_ = false;

  // What is being written beside the steps.
  struct Writing {
    CheckpointId id;
    int rank = 0;
    State state = 0;
    bool tainted = false;
  };
  std::optional<Writing> writing_;
};

}  // namespace rekindle::sim
