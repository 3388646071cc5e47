// The process: its control thread, how its step loop sleeps and wakes, its faults.
#include "trainer.hpp"

#include <algorithm>
#include <csignal>

#include "base/text.hpp"
#include "protocol/describe.hpp"
#include "worker.hpp"
#include "world.hpp"

namespace rekindle::sim {

using namespace protocol;

namespace {
constexpr Ms kBeat = 500;
}

TrainerProcess::TrainerProcess(World& world, std::string name, WorkerProcess& worker)
    : Process(world, std::move(name), worker.host()), worker_(worker) {}

void TrainerProcess::begin() {
  loop_ = live();
  loop_.start();
  after(world().engine().between(0, kBeat), [this] { beat(); });
}

TrainerProcess::Pause TrainerProcess::sleep(Ms ms, bool abortable) {
  condition_ = nullptr;
  abortable_ = abortable && inside_;
  waking_ = false;
  waits_for_ = -1;
  const std::uint64_t ticket = ++ticket_;
  after(ms * slow_, [this, ticket] {
    woken_ = Woken::kReady;
    wake(ticket);
  });
  return {*this};
}

TrainerProcess::Pause TrainerProcess::until(Condition condition) {
  condition_ = std::move(condition);
  abortable_ = inside_;
  waking_ = false;
  waits_for_ = -1;
  ++ticket_;
  return {*this};
}

void TrainerProcess::look_again() {
  if (!alive() || waking_ || !sleeper_) return;
  std::optional<Woken> why;
  if (abortable_ && control_.aborted()) {
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
  const std::uint64_t ticket = ++ticket_;  // a sleep does not end twice
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
  std::exchange(sleeper_, nullptr).resume();
}

std::optional<Ms> TrainerProcess::waiting_since() const {
  if (!inside_ || waits_for_ < 0) return std::nullopt;
  return waiting_since_;
}

// ---- the control thread ----

void TrainerProcess::hear(const ToTrainer& message) {
  world().coverage().trainer(phase_, message);
  const GenerationId before = control_.generation();
  const bool abort = control_.hear(message);
  world().checks().trainer_heard(*this, message, before, abort);
  news_ = true;
  // First: once the step loop sees it, the next generation may begin.
  if (meeting_ != nullptr && control_.aborted()) seat().gone_on = true;
  look_again();
}

void TrainerProcess::beat() {
  TrainerBeat beat{name(), phase_, control_.generation(), held_.step, progress_, -1, 0};
  if (inside_) beat.waiting_for = waits_for_;
  say(beat);
  after(kBeat, [this] { this->beat(); });
}

void TrainerProcess::say(FromTrainer message) {
  if (world().telling() && !std::holds_alternative<TrainerBeat>(message))
    world().tell(str(name(), " says ", describe(message)));
  to_worker_.send(worker_, world().engine().between(0, 1), [this, message = std::move(message)] {
    worker_.feed(OwnTrainerSaid{name(), message});
  });
}

void TrainerProcess::ended(bool by_signal, int code) {
  if (meeting_ != nullptr) {
    seat().left = true;
    meeting_->changed();
  }
  if (!worker_.alive()) return;
  to_worker_.send(worker_, world().engine().between(0, 3), [this, by_signal, code] {
    worker_.feed(OwnTrainerEnded{name(), by_signal, code});
  });
}

void TrainerProcess::set_phase(TrainerPhase phase) {
  ++progress_;
  phase_ = phase;
  world().trainer_came_to(*this, phase);
}

void TrainerProcess::set_held(Held held) {
  held_ = held;
  world().checks().holds(*this);
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
  state_ ^= 1;
}

void TrainerProcess::fail() {
  say(TrainerFailed{name(), 70, "no memory is left", "give it more"});
  exit(70);
}

// ---- its life ----

Parked TrainerProcess::parked(ParkReason reason, int peer) {
  set_phase(TrainerPhase::kIdle);
  return {start_.generation, name(), held_.whole, held_.step, reason, peer, {}, ""};
}

Parked TrainerProcess::failed(Woken why) {
  if (why == Woken::kAborted) return parked(ParkReason::kAborted);
  return parked(ParkReason::kExchangeFailed, broken_peer_);
}

Task<bool> TrainerProcess::live() {
  co_await sleep(world().plan().warm_up_ms + world().engine().between(0, 200));
  if (host() == world().plan().bad_host) {
    crash(SIGILL);
    co_await until([] { return 0; });
  }
  set_phase(TrainerPhase::kIdle);
  ready_ = true;
  say(TrainerReady{name(), host(), "cpu", worker_.fingerprint(), {host(), "", name(), 0, -1, 0}, 0});
  for (;;) {
    news_ = false;
    if (auto start = control_.next_start()) {
      const Parked word = co_await run(std::move(*start));
      say(word);
      continue;
    }
    if (control_.quit()) break;
    co_await until([this] { return news_ ? -1 : 0; });
  }
  exit(0);
  co_return true;
}

}  // namespace rekindle::sim
