// The process: its control thread, how its step loop sleeps and wakes, and its faults.
#include "trainer.hpp"

#include <algorithm>
#include <csignal>

#include "base/text.hpp"
#include "protocol/describe.hpp"
#include "trainer/plan.hpp"
#include "worker.hpp"
#include "world.hpp"

namespace rekindle::sim {

using namespace protocol;

namespace {
constexpr Ms kBeat = 500;
}

TrainerProcess::TrainerProcess(World& world, std::string name, WorkerProcess& worker)
    : Process(world, std::move(name), worker.host()),
      worker_(worker),
      link_(*this),
      task_(*this),
      hub_(*this),
      writer_(*this),
      storage_(*this),
      clock_(*this),
      trainer_({world.plan().job, task_, hub_, link_, writer_, storage_, clock_}) {}

TrainerProcess::~TrainerProcess() = default;

void TrainerProcess::begin() {
  fiber_ = std::make_unique<Fiber>([this] { live(); });
  fiber_->resume();
  after(world().engine().between(0, kBeat), [this] { beat(); });
}

TrainerProcess::Woken TrainerProcess::sleep(Ms ms, bool abortable) {
  condition_ = nullptr;
  abortable_ = abortable && inside();
  waking_ = false;
  waits_for_ = -1;
  const std::uint64_t ticket = ++ticket_;
  after(ms * slow_, [this, ticket] {
    woken_ = Woken::kReady;
    wake(ticket);
  });
  return stand_still();
}

TrainerProcess::Woken TrainerProcess::until(Condition condition) {
  condition_ = std::move(condition);
  abortable_ = inside();
  waking_ = false;
  waits_for_ = -1;
  ++ticket_;
  return stand_still();
}

TrainerProcess::Woken TrainerProcess::stand_still() {
  observe();
  asleep_ = true;
  look_again();
  fiber_->suspend();
  return woken_;
}

void TrainerProcess::look_again() {
  if (!alive() || waking_ || !asleep_) return;
  std::optional<Woken> why;
  if (abortable_ && link_.control().aborted()) {
    why = Woken::kAborted;
  } else if (condition_) {
    const int waits_for = condition_();
    if (waits_for == -1) why = Woken::kReady;
    if (waits_for == -2) why = Woken::kBroken;
    if (!why && waits_for_ < 0) waiting_since_ = world().engine().now();
    waits_for_ = why ? -1 : waits_for;
  }
  if (!why) return;
  waking_ = true;
  const std::uint64_t ticket = ++ticket_;  // invalidates the timer, so that a sleep does not end twice
  after(world().engine().between(0, 2), [this, ticket, why = *why] {
    woken_ = why;
    wake(ticket);
  });
}

void TrainerProcess::wake(std::uint64_t ticket) {
  if (ticket != ticket_) return;
  if (hanging_) {
    wake_held_back_ = true;
    return;
  }
  condition_ = nullptr;
  asleep_ = false;
  fiber_->resume();
}

void TrainerProcess::crash(int signal) {
  Process::crash(signal);
  if (fiber_ && fiber_->running()) throw Fiber::Ended{};
}

std::optional<Ms> TrainerProcess::waiting_since() const {
  if (!inside() || waits_for_ < 0) return std::nullopt;
  return waiting_since_;
}

void TrainerProcess::observe() {
  const ReplicaState& replica = trainer_.replica();
  if (replica.valid == observed_.valid && replica.step == observed_.step) return;
  observed_ = replica;
  world().checks().holds(*this);
}

// ---- the control thread ----

void TrainerProcess::on_message(const ToTrainer& message) {
  world().coverage().trainer(phase(), message);
  const GenerationId before = generation();
  const bool was_aborted = link_.control().aborted();
  link_.on_message(message);
  world().checks().on_trainer_message(*this, message, before, link_.control().aborted() && !was_aborted);
}

void TrainerProcess::beat() {
  say(link_.beat());
  after(kBeat, [this] { this->beat(); });
}

void TrainerProcess::say(FromTrainer message) {
  observe();
  // The worker of the schedule determines the fingerprint of this machine.
  if (auto* ready = std::get_if<TrainerReady>(&message)) {
    ready->fingerprint = worker_.fingerprint();
    ready_ = true;
  }
  if (world().logging() && !std::holds_alternative<TrainerBeat>(message))
    world().log(str(name(), " reports ", describe(message)));
  to_worker_.send(worker_, world().engine().between(0, 1), [this, report = report_of(message)] {
    worker_.feed(OwnTrainerReported{name(), report});
  });
}

void TrainerProcess::unwind() {
  asleep_ = false;
  condition_ = nullptr;
  if (fiber_ && !fiber_->running()) fiber_.reset();  // its exchange leaves the meeting
}

void TrainerProcess::ended(bool by_signal, int code) {
  unwind();
  if (!worker_.alive()) return;
  to_worker_.send(worker_, world().engine().between(0, 3), [this, by_signal, code] {
    worker_.feed(OwnTrainerEnded{name(), by_signal, code});
  });
}

// ---- faults ----

void TrainerProcess::hang(Ms ms) {
  hanging_ = true;
  after(ms, [this] {
    hanging_ = false;
    if (std::exchange(wake_held_back_, false)) wake(ticket_);
  });
}

void TrainerProcess::flip_bit() {
  tainted_ = true;
  task_.flip_bit();
}

void TrainerProcess::fail() {
  say(TrainerFailed{name(), 70, "no memory is left", "give it more"});
  exit(70);
}

// Gradients in the slots may come from the state before a flip, from the state after it, or from both.
void TrainerProcess::slot_written(std::uint64_t step) {
  if (step != slots_step_) slots_tainted_ = false;
  slots_step_ = step;
  slots_tainted_ = slots_tainted_ || tainted_;
}

void TrainerProcess::set_tainted(bool tainted) { tainted_ = slots_tainted_ = sums_tainted_ = tainted; }

// ---- the step loop ----

void TrainerProcess::live() {
  sleep(world().plan().warm_up_ms + world().engine().between(0, 200));
  if (host() == world().plan().bad_host) crash(SIGILL);
  TrainerReady ready;
  ready.trainer = name();
  ready.host = host();
  ready.device = "cpu";
  ready.address = trainer::to_address(hub_.endpoint());
  if (world().plan().on_devices) ready.gpu_identity = name();
  Status status = trainer_.warm_up(std::move(ready), "1");
  if (status) status = trainer_.run_until_quit();
  if (!status) return fail();
  exit(0);
}

}  // namespace rekindle::sim
