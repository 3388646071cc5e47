// Events and deadlines.
#include "protocol/coordinator.hpp"

#include <algorithm>
#include <tuple>

#include "base/invariant.hpp"
#include "base/planted.hpp"
#include "base/text.hpp"

namespace rekindle::protocol {

Coordinator::Coordinator(CoordinatorConfig config, Time now)
    : config_(std::move(config)),
      phase_(now + (config_.restarted ? config_.adopt_time : config_.gather_time)),
      times_{.now = now, .began = now, .ticked = now, .gather_until = now + config_.gather_time},
      ledger_{.committed = CommittedCheckpoints(std::move(config_.restorable)),
              .open = {},
              .failed = {},
              .suspect = {},
              .restore = {}},
      log_(config_.recorded_step, config_.evaluated) {
  if (const Restorable* newest = ledger_.committed.newest()) history_.step = newest->step;
  const auto expected = static_cast<std::size_t>(std::max(config_.expected_trainers, 0));
  history_.spares_reported = expected - std::min<std::size_t>(expected, config_.job.micro_batches);
  ledger_.open.began = config_.restarted ? now - config_.unsaved : now;
}

std::optional<std::uint64_t> Coordinator::committed_step() const {
  const Restorable* const newest = ledger_.committed.newest();
  return newest == nullptr ? std::nullopt : std::optional(newest->step);
}

std::vector<Effect> Coordinator::on(Time now, const Event& event) {
  times_.now = now;
  effects_.clear();
  forgive_own_delay();
  if (std::holds_alternative<Tick>(event)) times_.ticked = times_.now;
  if (phase() == Phase::kEnded) return {};
  std::visit([this](const auto& e) { handle(e); }, event);
  // There are thousands of heartbeats, and no phase depends on them.
  if (!std::holds_alternative<WorkerBeatSeen>(event)) {
    advance();
    check();
  }
  return std::move(effects_);
}

// Changes the phase until no fact demands another change. Every call in the loop is idempotent.
void Coordinator::advance() {
  const auto place = [this] {
    return std::tuple(phase(), generation_.id, phase_.judged(), phase_.running(), stop_.ending.has_value());
  };
  for (auto before = place();; before = place()) {
    if (stop_.replaced_by) return hand_over();
    if (phase() == Phase::kRunning && phase_.pausing()) pause_members();
    review_checkpoints();
    switch (phase()) {
      case Phase::kGathering:
        gather();
        break;
      case Phase::kAdopting:
        if (stop_.ending)
          pause_members();
        else
          go_on_if_adopted();
        break;
      case Phase::kRunning:
        if (phase_.running() && everyone_paused()) regroup();
        break;
      case Phase::kPausing:
        if (everyone_paused()) regroup();
        break;
      case Phase::kQuitting:
        finish_if_quiet();
        break;
      case Phase::kEnded:
        return;
    }
    if (place() == before) return;
  }
}

void Coordinator::handle(const WorkerRegistered& event) {
  const Registration& r = event.registration;
  if (const std::string* const why = faults_.samples.why_left_out(r.worker))
    return emit(Dismiss{config_.term, r.worker, 78, *why});
  membership_.workers[r.worker] = {r.host, r.slots, r.joined, times_.now};
  if (phase() == Phase::kQuitting)
    return emit(Dismiss{config_.term, r.worker, stop_.ending->exit_code, "the run is over"});
  // A trainer that is missing in the registration died while the worker had no connection.
  std::vector<std::string> missing;
  for (const auto& [name, trainer] : membership_.trainers) {
    if (trainer.worker != r.worker) continue;
    const bool there = std::any_of(r.trainers.begin(), r.trainers.end(),
                                   [&name = name](const TrainerState& t) { return t.ready.trainer == name; });
    if (!there) missing.push_back(name);
  }
  generation_.gone.insert(missing.begin(), missing.end());
  if (!missing.empty()) lose(missing, "it ended while its worker had no connection");
  for (const TrainerState& state : r.trainers) admit(r.worker, state);
}

void Coordinator::handle(const WorkerBeatSeen& event) {
  const auto found = membership_.workers.find(event.worker);
  if (found == membership_.workers.end()) return emit(RegisterAgain{config_.term, event.worker});
  found->second.last_seen = times_.now;
  for (const TrainerBeat& beat : event.trainers) on_report(event.worker, beat);
}

void Coordinator::handle(const WorkerLost& event) { lose_workers({event.worker}, event.why); }

void Coordinator::handle(const TrainerReported& event) {
  const auto found = membership_.workers.find(event.worker);
  // The worker was declared lost; its next heartbeat makes the worker register again.
  if (found == membership_.workers.end()) return;
  found->second.last_seen = times_.now;
  std::visit([&](const auto& message) { on_report(event.worker, message); }, event.message);
}

void Coordinator::handle(const StopRun& event) {
  if (stop_.ending) return;
  if (stop_.ask(event, times_.now)) {
    const bool trains = phase_.running() || phase_.adopting();
    emit(Info{str("stopping (", event.why, ")",
                  trains ? ": the step in flight is finished and the state is written" : "")});
    if (trains) stop_members();
  } else if (stop_.cause == StopCause::kSamplesUnreadable) {
    stop_.cause = StopCause::kRequest;  // somebody waits for the end now
  }
  if (stop_.until > Time(0)) times_.write_again_at = std::min(times_.write_again_at, latest_write());
  give_up_step_if_short();
}

void Coordinator::handle(const Swept& event) {
  ledger_.committed.keep(event.kept, ledger_.restore.checkpoint());
}

void Coordinator::handle(const CommitDone& event) {
  ledger_.open.all.erase({event.step, event.generation});
  if (!event.error.empty()) {
    ledger_.failed.failed(event.step, event.error);
    emit(Abandon{event.generation, event.step});
    emit(Warn{str("checkpoint of step ", event.step, " was not committed: ", event.error)});
  } else {
    ledger_.committed.add({event.checkpoint, event.step, event.fingerprint});
    ledger_.committed.keep(event.kept, event.checkpoint);
    ledger_.failed.written(event.step);
    ledger_.open.lost = false;
    emit(Info{str("checkpoint of step ", event.step, " is committed: checkpoints/", event.checkpoint)});
  }
  pause_for_newcomers();
}

void Coordinator::handle(const Fenced& event) { stop_.replaced_by = event.by_term; }

// ---- time ----

void Coordinator::handle(const Tick&) {
  judge_silence();
  if (phase() == Phase::kRunning || phase() == Phase::kPausing) judge_hangs();
  // A trainer may have reported changed memory while the generation was being adopted.
  if (ledger_.suspect.must_restore() && ledger_.suspect.is_about(generation_.id)) phase_.break_off();
  judge_stalls();
  give_up_step_if_short();
  pause_for_newcomers();
  save_again_if_lost();
  judge_writers();
  check_deadlines();
}

// A coordinator that was suspended, or delayed on an overloaded machine, has read no messages meanwhile.
// Their senders are not at fault: the messages still wait in its queue.
void Coordinator::forgive_own_delay() {
  const Time gap = times_.now - times_.ticked;
  if (gap <= config_.lost_after / 4) return;
  times_.ticked = times_.now;
  membership_.forgive(gap, gap >= config_.lost_after, times_.now);
  phase_.postpone(gap);
  if (times_.gather_until) *times_.gather_until += gap;
  times_.hold_until += gap;
}

void Coordinator::check_deadlines() {
  if (const auto* const adopting = phase_.get<AdoptingPhase>();
      adopting != nullptr && times_.now >= adopting->until) {
    for (const std::string& member : generation_.members) {
      if (!membership_.trainers.contains(member)) generation_.gone.insert(member);
    }
  }
  if (const auto* const pausing = phase_.get<PausingPhase>();
      pausing != nullptr && times_.now >= pausing->until)
    judge_pauses();
  // A trainer that has not exited by now is stuck; supervisor and workers kill the rest.
  if (const auto* const quitting = phase_.get<QuittingPhase>();
      quitting != nullptr && times_.now >= quitting->until)
    membership_.trainers.clear();
}

bool Coordinator::run_is_complete() const {
  return committed_step() == config_.job.steps &&
         (config_.job.test_samples == 0 || log_.is_evaluated(config_.job.steps));
}

// There is no generation: form or adopt one, or end the run.
void Coordinator::gather() {
  if (stop_.ending) return quit_all();
  if (const auto until = phase_.get<GatheringPhase>()->adopt_until)
    return phase_.enter(AdoptingPhase{*until});
  // An older coordinator of this attempt died after the last step was complete.
  if (config_.restarted && !history_.any_formed && run_is_complete())
    return end({0, str("finished: ", counted(config_.job.steps, "step")), ""});
  const bool holds = times_.now < std::max(times_.hold_until, times_.write_again_at);
  if (times_.gather_until && times_.now >= *times_.gather_until && !holds) gather_time_is_over();
  if (phase() == Phase::kGathering) form_if_possible();
}

void Coordinator::gather_time_is_over() {
  if (!history_.any_formed && membership_.trainers.empty() && !config_.restarted)
    return end(faults_.start_tries.end(EndCause::kNobodyCame,
                                       "no trainer came up within the gather time (--gather-time)"));
  if (!membership_.trainers.empty() && membership_.trainers.size() >= config_.job.min_trainers) return form();
  stop_.ask({75, "too few trainers", Time(0)}, times_.now);
  const std::string few = str("fewer than ", counted(config_.job.min_trainers, "trainer"), " for ",
                              config_.gather_time.count() / 1000, " s");
  if (nothing_to_save(origin())) {
    Finish finish = saved_finish(committed_step().value_or(0));
    finish.line = str(few, ": ", finish.line);
    finish.cause = EndCause::kTooFewTrainers;
    return end(finish);
  }
  if (stop_.cause != StopCause::kRequest) return;
  emit(Warn{str(few, ": the state is written and the run stops"), WarnAbout::kTooFewTrainers});
  stop_.cause = StopCause::kTooFewTrainers;
}

// A stop with a time limit cannot wait for a step that would exceed the limit. The state before that step is
// written instead.
void Coordinator::give_up_step_if_short() {
  if (!stop_ || stop_.step_given_up || generation_.saves || !phase_.running()) return;
  bool writing = false;
  for (const auto& [name, trainer] : membership_.trainers) {
    writing = writing || trainer.paused || trainer.beat.phase == TrainerPhase::kWriting;
  }
  // The members have paused already, or are writing the final state.
  if (writing || ledger_.open.any_that_pauses()) return;
  if (!stop_.is_too_short_for_a_step(times_.now, ledger_.open.write_time)) return;
  stop_.step_given_up = true;
  emit(Info{
      str("the step in flight takes too long: the state of step ", history_.step, " is written instead")});
  phase_.break_off();
}

// ---- helpers ----

Activity Coordinator::activity() const {
  if (!phase_.running()) return Activity::kForming;
  const bool evaluates = std::ranges::any_of(membership_.trainers, [](const auto& entry) {
    return entry.second.rank >= 0 && entry.second.beat.phase == TrainerPhase::kEvaluating;
  });
  return evaluates ? Activity::kEvaluating : Activity::kTraining;
}

// After each event: a state that breaks an invariant is a bug, and a new coordinator learns everything anew.
void Coordinator::check() const {
  phase_.check();
  generation_.check();
  ledger_.check();
  stop_.check();
  faults_.check();
  log_.check();
#ifndef NDEBUG
  // These take time in proportion to the number of trainers.
  membership_.check();
  for (const auto& [name, trainer] : membership_.trainers)
    invariant(trainer.rank < 0 || generation_.has(name, trainer.rank), "a trainer's rank is another one's");
#endif
}

bool Coordinator::current(const GenerationId& id) const {
  if (planted(Bug::kNoGenerationCheck)) return true;
  return id == generation_.id &&
         (phase() == Phase::kRunning || phase() == Phase::kPausing || phase() == Phase::kAdopting);
}

void Coordinator::send(const std::string& trainer, ToTrainer message) {
  auto* const found = membership_.find(trainer);
  if (found != nullptr) emit(SendTrainer{found->worker, trainer, std::move(message)});
}

}  // namespace rekindle::protocol
