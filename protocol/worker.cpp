#include "protocol/worker.hpp"

#include <algorithm>
#include <csignal>

#include "base/backoff.hpp"
#include "base/planted.hpp"
#include "base/text.hpp"

namespace rekindle::protocol {

namespace {
constexpr std::size_t kMissedLimit = 100000;  // reports kept for the next coordinator: hours of steps
constexpr Time kHeldUp{1000};  // longer gaps between two ticks mean that the worker was delayed
// Quick restarts of a slot whose trainers are killed before they make a step.
constexpr int kQuickRestarts = 3;
// These reports may have been in flight when the connection broke, or in the queue of a coordinator that hung
// until it was replaced.
constexpr std::size_t kRecentReports = 10000;

// A state that has changed in memory is kept in the registration, because everything computed from it is
// wrong.
bool is_of_storage(const ShardFailed& failed) { return !failed.changed; }

}  // namespace

Worker::Worker(WorkerConfig config, Time now)
    : config_(std::move(config)),
      times_{.now = now, .ticked = now, .next_beat = now, .alone_since = now, .beat = config_.beat},
      term_(config_.least_term) {
  slots_.resize(static_cast<std::size_t>(config_.slots));
}

std::vector<WorkerEffect> Worker::on(Time now, const WorkerEvent& event) {
  times_.now = now;
  effects_.clear();
  if (!leaving_) std::visit([this](const auto& e) { handle(e); }, event);
  return std::move(effects_);
}

bool Worker::obeys(std::uint64_t term) const {
  return planted(Bug::kNoTermCheck) || (term == term_ && registered());
}

// ---- the coordinator ----

void Worker::handle(const TermSeen& event) {
  if (event.term < term_ || (event.term == term_ && link_ != Link::kNone)) return;
  if (connected()) times_.alone_since = times_.now;
  term_ = event.term;
  link_ = Link::kConnecting;
  emit(Connect{term_});
}

void Worker::handle(const Connected& event) {
  if (event.term != term_ || link_ != Link::kConnecting) return;
  link_ = Link::kConnected;
  register_again();
}

void Worker::handle(const RegisterAgain& order) {
  if (order.term != term_ || !registered()) return;
  link_ = Link::kConnected;
  register_again();
}

void Worker::register_again() {
  Registration registration{config_.worker, config_.host,           config_.build, config_.slots, {},
                            config_.joined, config_.directory_inode};
  for (const auto& [name, trainer] : trainers_) {
    if (trainer.ready) registration.trainers.push_back(trainer.state);
  }
  emit(SendRegistration{term_, std::move(registration)});
  times_.registered_at = times_.now;
}

void Worker::handle(const Disconnected& event) {
  if (event.term != term_) return;
  if (connected()) times_.alone_since = times_.now;
  link_ = Link::kNone;
}

void Worker::handle(const Welcomed& event) {
  if (event.term != term_ || !connected()) return;
  if (!event.refused.empty()) {
    leaving_ = true;
    return emit(LeaveRun{78, str("the coordinator refused this worker: ", event.refused)});
  }
  link_ = Link::kRegistered;
  for (const std::string& message : missed_) emit(SendReport{term_, message});
  if (missed_.size() > kRecentReports)
    missed_.erase(missed_.begin(), missed_.end() - static_cast<std::ptrdiff_t>(kRecentReports));
  // A trainer that became ready or ended between the registration and its answer has been reported already.
  fill_slots();
}

void Worker::handle(const OrderedForTrainer& event) {
  if (!obeys(event.term)) return;
  const auto found = trainers_.find(event.trainer);
  if (found == trainers_.end()) return;
  TrainerState& state = found->second.state;
  if (const auto* start = std::get_if<Start>(&event.order)) {
    state.started = *start;
    times_.beat = beat_among(start->members.size());
    state.parked.reset();
    // All trainers restore a checkpoint, so states computed from the changed one are gone.
    if (start->sources.empty())
      std::erase_if(state.failed, [start](const ShardFailed& failed) { return failed.step > start->step; });
  }
  if (is_quit(event.order)) slots_[found->second.slot].done = true;
  emit(PassOn{event.trainer, text_of(event.order)});
}

// All workers send to one coordinator: in large generations each worker sends fewer heartbeats.
Time Worker::beat_among(std::size_t trainers) const {
  constexpr std::size_t kTrainersPerMs = 3;
  const Time wanted(static_cast<Time::rep>(trainers / kTrainersPerMs));
  return std::clamp(wanted, config_.beat, std::max(config_.beat, config_.slowest_beat));
}

void Worker::handle(const KillTrainer& order) {
  if (!obeys(order.term) || !trainers_.contains(order.trainer)) return;
  emit(Warn{str("trainer ", order.trainer, " is killed: ", order.why)});
  emit(order);
}

void Worker::handle(const Dismiss& order) {
  if (!obeys(order.term)) return;
  leaving_ = true;
  emit(LeaveRun{order.exit_code, order.why});
}

// ---- the trainers ----

void Worker::handle(const OwnTrainerReported& event) {
  const auto found = trainers_.find(event.trainer);
  if (found == trainers_.end()) return;
  const auto& remembered = event.report.remembered;
  if (remembered) remember(found->second, *remembered);
  // Heartbeats are collected and sent together.
  if (!remembered || !std::holds_alternative<TrainerBeat>(*remembered)) report(event.report);
}

void Worker::remember(Trainer& trainer, const Remembered& message) {
  TrainerState& state = trainer.state;
  if (const auto* ready = std::get_if<TrainerReady>(&message)) {
    trainer.ready = true;
    slots_[trainer.slot].proven = true;
    state.ready = *ready;
  } else if (const auto* paused = std::get_if<Paused>(&message)) {
    // A pause in an older generation does not count for the generation that was started since.
    if (state.started && paused->generation == state.started->generation) state.parked = *paused;
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

void Worker::report(const Report& report) {
  const bool kept = is_for_the_records(report);
  if (kept) {
    missed_.push_back(report.text);
    const std::size_t limit = registered() ? kRecentReports : kMissedLimit;
    while (missed_.size() > limit) missed_.pop_front();
  }
  // Between the registration and its answer, other reports are sent at once, because the coordinator reads in
  // order. Steps wait, because they are sent again after the answer.
  if (registered() || (connected() && !kept)) emit(SendReport{term_, report.text});
}

void Worker::handle(const OwnTrainerEnded& event) {
  const auto found = trainers_.find(event.trainer);
  if (found == trainers_.end()) return;
  Slot& slot = slots_[found->second.slot];
  const TrainerState& state = found->second.state;
  const bool made_steps = state.started && state.beat.step > state.started->step;
  trainers_.erase(found);
  slot.trainer.clear();
  report(report_of(TrainerExited{event.trainer, event.by_signal, event.code}));
  const bool killed = event.by_signal && event.code == SIGKILL;
  // 64 and 78: the job itself is wrong, and a restart would fail again. If a trainer of this slot has been
  // ready before, the job is right: the data or the network may come back.
  const bool refused = event.code == 64 || event.code == 78;
  if (!event.by_signal && (event.code == 0 || (refused && !slot.proven))) slot.done = true;
  if (slot.done) return;
  if (killed) {
    slot.kills = made_steps ? 0 : slot.kills + 1;
    slot.start_at =
        times_.now + (slot.kills <= kQuickRestarts ? config_.killed_restart
                                                   : restart_delay(slot.kills - kQuickRestarts - 1));
    return;
  }
  if (times_.now - slot.started >= config_.steady) slot.crashes = 0;
  slot.start_at = times_.now + restart_delay(slot.crashes++);
}

Time Worker::restart_delay(int failures) const {
  return backoff(config_.first_restart, config_.last_restart, failures);
}

void Worker::fill_slots() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (!slot.trainer.empty() || slot.done || (slot.start_at && times_.now < *slot.start_at)) continue;
    // Without a coordinator it is unknown whether the run still exists.
    if (!registered()) continue;
    slot.trainer = str(config_.worker, ".", i, "-", ++started_);
    slot.started = times_.now;
    slot.start_at.reset();
    Trainer trainer;
    trainer.slot = i;
    trainers_.emplace(slot.trainer, std::move(trainer));
    emit(StartTrainer{slot.trainer});
  }
}

void Worker::end_trainers_that_never_get_ready() {
  for (const auto& [name, trainer] : trainers_) {
    if (trainer.ready || times_.now - slots_[trainer.slot].started <= config_.warm_up_limit) continue;
    const KillTrainer kill{term_, config_.worker, name, "it did not warm up"};
    emit(Warn{str("trainer ", name, " is killed: ", kill.why)});
    emit(kill);
  }
}

void Worker::handle(const WorkerTick&) {
  // A worker that was delayed itself (the job was suspended) does not count that time.
  if (const Time gap = times_.now - times_.ticked; gap > kHeldUp) {
    for (Slot& slot : slots_) slot.started += gap;
    times_.alone_since += gap;
    times_.registered_at += gap;
  }
  times_.ticked = times_.now;
  fill_slots();
  end_trainers_that_never_get_ready();
  if (!connected() && times_.now - times_.alone_since > config_.alone_limit) {
    leaving_ = true;
    return emit(LeaveRun{75, "no coordinator came back"});
  }
  if (connected() && !registered() && times_.now - times_.registered_at > config_.welcome_limit) {
    // The coordinator may keep the old connection of this worker forever; only a new process is a new worker.
    leaving_ = true;
    return emit(LeaveRun{1, "the coordinator does not answer"});
  }
  if (!registered() || times_.now < times_.next_beat) return;
  times_.next_beat = times_.now + times_.beat;
  SendBeat beat{term_, {}};
  for (auto& [name, trainer] : trainers_) {
    if (trainer.fresh_beat && trainer.ready) beat.trainers.push_back(*trainer.fresh_beat);
    trainer.fresh_beat.reset();
  }
  emit(std::move(beat));
}

}  // namespace rekindle::protocol
