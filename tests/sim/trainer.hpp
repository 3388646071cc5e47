// A virtual trainer: the real trainer::Trainer in a fiber, a control thread that always answers, and faults.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "exchange.hpp"
#include "fiber.hpp"
#include "parts.hpp"
#include "process.hpp"
#include "trainer/trainer.hpp"

namespace rekindle::sim {

class WorkerProcess;

class TrainerProcess : public Process {
 public:
  TrainerProcess(World& world, std::string name, WorkerProcess& worker);
  ~TrainerProcess() override;
  void begin();
  void unwind();  // ends its step loop

  WorkerProcess& worker() { return worker_; }
  void on_message(const protocol::ToTrainer& message);  // called by its control thread
  void say(protocol::FromTrainer message);
  void look_again();  // checks the condition for which the step loop waits

  // ---- of the step loop: waits for a time or a condition ----
  enum class Woken { kReady, kAborted, kBroken };
  // -1: met; -2: the exchange is broken; otherwise the rank to wait for
  using Condition = std::function<int()>;
  Woken sleep(Ms ms, bool abortable = true);
  Woken until(Condition condition);
  void crash(int signal);  // not from outside
  void observe();          // checks the state if it has changed

  // ---- faults ----
  void hang(Ms ms);
  void slow_down(int factor) { slow_ = factor; }
  void flip_bit();
  void fail();  // reports TrainerFailed and exits

  // ---- how a flipped bit spreads through states and gradients ----
  bool tainted() const { return tainted_; }
  void set_tainted(bool tainted);  // the state was replaced
  void slot_written(std::uint64_t step);
  bool slots_tainted() const { return slots_tainted_; }
  void taint_sums(bool tainted) { sums_tainted_ = sums_tainted_ || tainted; }
  void taint_state() { tainted_ = std::exchange(sums_tainted_, false) || tainted_; }

  // ---- the actual state, for the checks ----
  const protocol::ReplicaState& replica() const { return trainer_.replica(); }
  State state() const { return task_.snapshot(); }
  bool inside() const { return link_.inside(); }  // whether the step loop is in a generation
  bool ready() const { return ready_; }
  bool hanging() const { return hanging_; }
  protocol::TrainerPhase phase() const { return link_.phase(); }
  const protocol::GenerationId& generation() const { return link_.control().generation(); }
  bool writes(const CheckpointId& id) const { return writer_.writes(id); }
  int waits_for() const { return waits_for_; }
  // Since when the step loop has been waiting for a peer, or no value.
  std::optional<Ms> waiting_since() const;
  SimHub& hub() { return hub_; }
  SimTask& task() { return task_; }
  SimLink& link() { return link_; }

 protected:
  void ended(bool by_signal, int code) override;

 private:
  Woken stand_still();
  void wake(std::uint64_t ticket);
  void beat();
  void live();

  WorkerProcess& worker_;
  Fifo to_worker_;

  // The condition for which the step loop waits:
  std::uint64_t ticket_ = 0;
  Condition condition_;
  bool asleep_ = false, abortable_ = false, waking_ = false;
  Woken woken_ = Woken::kReady;
  int waits_for_ = -1;
  Ms waiting_since_ = 0;

  bool hanging_ = false, wake_held_back_ = false, ready_ = false;
  int slow_ = 1;
  protocol::ReplicaState observed_;
  bool tainted_ = false, slots_tainted_ = false, sums_tainted_ = false;
  std::uint64_t slots_step_ = 0;

  SimLink link_;
  SimTask task_;
  SimHub hub_;
  SimWriter writer_;
  SimStorage storage_;
  SimClock clock_;
  trainer::Trainer trainer_;
  std::unique_ptr<Fiber> fiber_;  // last member, because its stack uses all others
};

}  // namespace rekindle::sim
