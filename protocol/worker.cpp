#include "protocol/worker.hpp"

#include <algorithm>
#include <csignal>

#include "base/text.hpp"
#include "protocol/planted.hpp"

namespace rekindle::protocol {

namespace {
constexpr std::size_t kMissedLimit = 100000;  // reports kept for the next coordinator: hours of steps
constexpr Time kHeldUp{1000};                 // between two ticks
constexpr int kQuickRestarts = 3;             // of a slot whose trainers are killed before they make a step
// May have been on their way when the connection broke, or with a coordinator that stood still until it was
// replaced.
constexpr std::size_t kRecentReports = 10000;

bool worth_keeping(const FromTrainer& message) {
  return std::holds_alternative<StepDone>(message) || std::holds_alternative<StepsDone>(message) ||
         std::holds_alternative<Evaluated>(message);
}
// A state that has changed in memory spoils whatever is made of it: that is remembered.
bool is_of_storage(const ShardFailed& failed) { return !failed.changed; }

}  // namespace

Worker::Worker(WorkerConfig config, Time now)
    : config_(std::move(config)),
      now_(now),
      ticked_(now),
      next_beat_(now),
      alone_since_(now),
      beat_(config_.beat),
      term_(config_.least_term) {
  slots_.resize(static_cast<std::size_t>(config_.slots));
}

std::vector<WorkerEffect> Worker::on(Time now, const WorkerEvent& event) {
  now_ = now;
  effects_.clear();
  if (!leaving_) std::visit([this](const auto& e) { handle(e); }, event);
  return std::move(effects_);
}

bool Worker::obeys(std::uint64_t term) const {
  return planted(Bug::kNoTermCheck) || (term == term_ && registered_);
}

// ---- the coordinator ----

void Worker::handle(const TermSeen& event) {
  if (event.term < term_ || (event.term == term_ && (connecting_ || connected_))) return;
  if (connected_) alone_since_ = now_;
  term_ = event.term;
  connecting_ = true;
  connected_ = registered_ = false;
  emit(Connect{term_});
}

void Worker::handle(const Connected& event) {
  if (event.term != term_ || !connecting_) return;
  connecting_ = false;
  connected_ = true;
  register_again();
}

void Worker::handle(const AskedToRegister& event) {
  if (event.term != term_ || !registered_) return;
  registered_ = false;
  register_again();
}

void Worker::register_again() {
  Registration registration{config_.worker, config_.host, config_.build, config_.slots, {}, config_.joined};
  for (const auto& [name, trainer] : trainers_) {
    if (trainer.ready) registration.trainers.push_back(trainer.state);
  }
  emit(SendRegistration{term_, std::move(registration)});
  asked_at_ = now_;
}

void Worker::handle(const Disconnected& event) {
  if (event.term != term_) return;
  if (connected_) alone_since_ = now_;
  connecting_ = connected_ = registered_ = false;
}

void Worker::handle(const Welcomed& event) {
  if (event.term != term_ || !connected_) return;
  if (!event.refused.empty()) {
    leaving_ = true;
    return emit(LeaveRun{78, str("the coordinator refused this worker: ", event.refused)});
  }
  registered_ = true;
  for (const FromTrainer& message : missed_) emit(SendReport{term_, message});
  if (missed_.size() > kRecentReports)
    missed_.erase(missed_.begin(), missed_.end() - static_cast<std::ptrdiff_t>(kRecentReports));
  // Whoever became ready or ended between the registration and its answer has been reported with the rest.
  fill_slots();
}

void Worker::handle(const OrderedForTrainer& event) {
  if (!obeys(event.term)) return;
  const auto found = trainers_.find(event.order.trainer);
  if (found == trainers_.end()) return;
  TrainerState& state = found->second.state;
  if (const auto* start = std::get_if<Start>(&event.order.message)) {
    state.started = *start;
    beat_ = beat_among(start->members.size());
    state.parked.reset();
    if (start->sources.empty())  // all go back: what was made of a spoilt state is gone
      std::erase_if(state.failed, [start](const ShardFailed& failed) { return failed.step > start->step; });
  }
  if (std::holds_alternative<Quit>(event.order.message)) slots_[found->second.slot].done = true;
  emit(PassOn{event.order.trainer, event.order.message});
}

// One coordinator hears them all: from some size on, each says less often that it is there.
Time Worker::beat_among(std::size_t trainers) const {
  constexpr std::size_t kTrainersPerMs = 3;
  const Time wanted(static_cast<Time::rep>(trainers / kTrainersPerMs));
  return std::clamp(wanted, config_.beat, std::max(config_.beat, config_.slowest_beat));
}

void Worker::handle(const OrderedKill& event) {
  if (!obeys(event.term) || !trainers_.contains(event.order.trainer)) return;
  emit(Warn{str("trainer ", event.order.trainer, " is killed: ", event.order.why)});
  emit(EndTrainer{event.order.trainer});
}

void Worker::handle(const Dismissed& event) {
  if (!obeys(event.term)) return;
  leaving_ = true;
  emit(LeaveRun{event.order.exit_code, event.order.why});
}

// ---- the trainers ----

void Worker::handle(const OwnTrainerSaid& event) {
  const auto found = trainers_.find(event.trainer);
  if (found == trainers_.end()) return;
  Trainer& trainer = found->second;
  remember(trainer, event.message);
  // Beats go up together, once in a while.
  if (!std::holds_alternative<TrainerBeat>(event.message)) report(event.message);
}

void Worker::remember(Trainer& trainer, const FromTrainer& message) {
  TrainerState& state = trainer.state;
  if (const auto* ready = std::get_if<TrainerReady>(&message)) {
    trainer.ready = true;
    slots_[trainer.slot].proven = true;
    state.ready = *ready;
  } else if (const auto* parked = std::get_if<Parked>(&message)) {
    // Its word about an older generation says nothing about the one that it has been sent into since.
    if (state.started && parked->generation == state.started->generation) state.parked = *parked;
  } else if (const auto* beat = std::get_if<TrainerBeat>(&message)) {
    state.beat = *beat;
    trainer.fresh_beat = *beat;
  } else if (const auto* begun = std::get_if<ShardBegun>(&message)) {
    state.writing = *begun;
  } else if (const auto* written = std::get_if<ShardWritten>(&message)) {
    state.writing.reset();
    state.written = {*written};
    std::erase_if(state.failed, is_of_storage);
  } else if (const auto* failed = std::get_if<ShardFailed>(&message)) {
    state.writing.reset();
    std::erase_if(state.failed, is_of_storage);
    state.failed.push_back(*failed);
    state.written.clear();
  }
}

void Worker::report(const FromTrainer& message) {
  if (worth_keeping(message)) {
    missed_.push_back(message);
    const std::size_t limit = registered_ ? kRecentReports : kMissedLimit;
    while (missed_.size() > limit) missed_.pop_front();
  }
  // Between the registration and its answer: the coordinator reads in order, so it is told now. Steps wait
  // for the answer, for they are told again then.
  if (registered_ || (connected_ && !worth_keeping(message))) emit(SendReport{term_, message});
}

void Worker::handle(const OwnTrainerEnded& event) {
  const auto found = trainers_.find(event.trainer);
  if (found == trainers_.end()) return;
  Slot& slot = slots_[found->second.slot];
  const TrainerState& state = found->second.state;
  const bool made_steps = state.started && state.beat.step > state.started->step;
  trainers_.erase(found);
  slot.trainer.clear();
  report(TrainerExited{event.trainer, event.by_signal, event.code});
  const bool killed = event.by_signal && event.code == SIGKILL;
  // 64 and 78: what it is asked to do is wrong, and will be the next time. Where one has been ready before,
  // it was right: the data may come back, or the network.
  const bool refused = event.code == 64 || event.code == 78;
  if (!event.by_signal && (event.code == 0 || (refused && !slot.proven))) slot.done = true;
  if (slot.done) return;
  if (killed) {
    slot.kills = made_steps ? 0 : slot.kills + 1;
    slot.start_at = now_ + (slot.kills <= kQuickRestarts ? config_.killed_restart
                                                         : backoff(slot.kills - kQuickRestarts - 1));
    return;
  }
  if (now_ - slot.started >= config_.steady) slot.crashes = 0;
  slot.start_at = now_ + backoff(slot.crashes++);
}

Time Worker::backoff(int failures) const {
  return std::min(config_.last_restart, config_.first_restart * (1 << std::min(failures, 16)));
}

void Worker::fill_slots() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (!slot.trainer.empty() || slot.done || (slot.start_at && now_ < *slot.start_at)) continue;
    // Without a coordinator nobody knows whether there is a run to train for.
    if (!registered_) continue;
    slot.trainer = str(config_.worker, ".", i, "-", ++started_);
    slot.started = now_;
    slot.start_at.reset();
    Trainer trainer;
    trainer.slot = i;
    trainers_.emplace(slot.trainer, std::move(trainer));
    emit(StartTrainer{slot.trainer});
  }
}

void Worker::end_those_that_never_get_ready() {
  for (const auto& [name, trainer] : trainers_) {
    if (trainer.ready || now_ - slots_[trainer.slot].started <= config_.warm_up_limit) continue;
    emit(Warn{str("trainer ", name, " did not warm up: it is killed")});
    emit(EndTrainer{name});
  }
}

void Worker::handle(const WorkerTick&) {
  // A worker that was itself held up (the whole job was suspended) does not judge by that time.
  if (const Time gap = now_ - ticked_; gap > kHeldUp) {
    for (Slot& slot : slots_) slot.started += gap;
    alone_since_ += gap;
    asked_at_ += gap;
  }
  ticked_ = now_;
  fill_slots();
  end_those_that_never_get_ready();
  if (!connected_ && now_ - alone_since_ > config_.alone_limit) {
    leaving_ = true;
    return emit(LeaveRun{75, "no coordinator came back"});
  }
  if (connected_ && !registered_ && now_ - asked_at_ > config_.welcome_limit) {
    // The other end may hold this one's old connection for good: only a new process is new to it.
    leaving_ = true;
    return emit(LeaveRun{1, "the coordinator does not answer"});
  }
  if (!registered_ || now_ < next_beat_) return;
  next_beat_ = now_ + beat_;
  SendBeat beat{term_, {}};
  for (auto& [name, trainer] : trainers_) {
    if (trainer.fresh_beat && trainer.ready) beat.trainers.push_back(*trainer.fresh_beat);
    trainer.fresh_beat.reset();
  }
  emit(std::move(beat));
}

}  // namespace rekindle::protocol
