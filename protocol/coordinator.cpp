// Events, time and the end.
#include "protocol/coordinator.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "protocol/planted.hpp"

namespace rekindle::protocol {

const char* to_text(Phase phase) {
  switch (phase) {
    case Phase::kGathering:
      return "gathering";
    case Phase::kAdopting:
      return "adopting";
    case Phase::kRunning:
      return "running";
    case Phase::kParking:
      return "parking";
    case Phase::kQuitting:
      return "quitting";
    case Phase::kEnded:
      return "ended";
  }
  return "";
}

Coordinator::Coordinator(CoordinatorConfig config, Time now)
    : config_(std::move(config)),
      began_at_(now),
      now_(now),
      ticked_(now),
      gather_until_(now + config_.gather_time),
      ledger_{.committed = CommittedCheckpoints(std::move(config_.restorable)),
              .open = {},
              .failed = {},
              .doubt = {},
              .restore = {}},
      log_(config_.recorded_step, config_.evaluated) {
  wait_until_ = config_.restarted ? now + config_.adopt_time : gather_until_;
  if (const Restorable* newest = ledger_.committed.newest()) step_ = newest->step;
  const auto expected = static_cast<std::size_t>(std::max(config_.expected_trainers, 0));
  spares_reported_ = expected - std::min<std::size_t>(expected, config_.job.micro_batches);
  ledger_.open.began = config_.restarted ? now - config_.unsaved : now;
}

std::optional<std::uint64_t> Coordinator::committed_step() const {
  const Restorable* const newest = ledger_.committed.newest();
  return newest == nullptr ? std::nullopt : std::optional(newest->step);
}

std::vector<Effect> Coordinator::on(Time now, const Event& event) {
  now_ = now;
  effects_.clear();
  forgive_own_delay();
  if (std::holds_alternative<Tick>(event)) ticked_ = now_;
  if (phase_ != Phase::kEnded) std::visit([this](const auto& e) { handle(e); }, event);
  return std::move(effects_);
}

void Coordinator::handle(const WorkerRegistered& event) {
  const Registration& r = event.registration;
  there_.workers[r.worker] = {r.host, r.slots, r.joined, now_};
  if (phase_ == Phase::kQuitting)
    return emit(DismissWorker{r.worker, {ending_->exit_code, "the run is over"}});
  // A trainer that it does not have any more died while nobody listened.
  std::vector<std::string> missing;
  for (const auto& [name, trainer] : there_.trainers) {
    if (trainer.worker != r.worker) continue;
    const bool there = std::any_of(r.trainers.begin(), r.trainers.end(),
                                   [&name = name](const TrainerState& t) { return t.ready.trainer == name; });
    if (!there) missing.push_back(name);
  }
  generation_.gone.insert(missing.begin(), missing.end());
  // Nothing is formed before all is known of each: what one had been told before is not what it is told then.
  registering_ = true;
  if (!missing.empty()) lose(missing, "it is gone");
  for (const TrainerState& state : r.trainers) admit(r.worker, state);
  registering_ = false;
  if (phase_ == Phase::kAdopting) return go_on_if_adopted();
  if ((phase_ == Phase::kRunning || phase_ == Phase::kParking) && everyone_parked()) return regroup();
  if (phase_ == Phase::kGathering) form_if_possible();
}

void Coordinator::handle(const WorkerBeatSeen& event) {
  const auto found = there_.workers.find(event.worker);
  if (found == there_.workers.end()) return emit(AskToRegister{event.worker});
  found->second.heard = now_;
  for (const TrainerBeat& beat : event.trainers) heard(event.worker, beat);
}

void Coordinator::handle(const WorkerLost& event) { lose_workers({event.worker}, event.why); }

void Coordinator::handle(const TrainerSaid& event) {
  const auto found = there_.workers.find(event.worker);
  if (found == there_.workers.end()) return;  // declared lost; its next beat makes it register again
  found->second.heard = now_;
  std::visit([&](const auto& message) { heard(event.worker, message); }, event.message);
}

void Coordinator::handle(const StopAsked& event) {
  if (ending_) return;
  if (stop_.ask(event, now_)) {
    emit(Tell{str("stopping (", event.why, "): the step in flight is finished and the state is written")});
    if (phase_ == Phase::kRunning || phase_ == Phase::kAdopting) stop_members();
    if (phase_ == Phase::kRunning && everyone_parked()) regroup();
    if (phase_ == Phase::kGathering) form_if_possible();
  }
  give_up_step_if_short();
}

void Coordinator::handle(const Swept& event) {
  ledger_.committed.keep(event.kept, ledger_.restore.checkpoint());
}

void Coordinator::handle(const CommitDone& event) {
  ledger_.open.all.erase({event.step, event.generation});
  if (!event.error.empty()) {
    ledger_.failed.failed(event.step, event.error);
    if (!fenced_) emit(Abandon{event.generation, event.step});
    emit(Warn{str("checkpoint of step ", event.step, " was not committed: ", event.error)});
  } else {
    ledger_.committed.add({event.checkpoint, event.step, event.fingerprint});
    ledger_.committed.keep(event.kept, event.checkpoint);
    ledger_.failed.written(event.step);
    ledger_.open.lost = false;
    emit(Tell{str("checkpoint of step ", event.step, " is committed: checkpoints/", event.checkpoint)});
  }
  after_checkpoint();
}

void Coordinator::handle(const Fenced& event) {
  // The run goes on, with the other one: nobody is to stop because of this.
  fenced_ = true;
  phase_ = Phase::kEnded;
  emit(Finish{70, str("another coordinator has taken over this run (term ", event.by_term, ")"), ""});
}

// ---- time ----

void Coordinator::handle(const Tick&) {
  judge_silence();
  if (phase_ == Phase::kRunning || phase_ == Phase::kParking) judge_hangs();
  // Where that was told while the generation was being taken over.
  if (phase_ == Phase::kRunning && ledger_.doubt.must_restore() && ledger_.doubt.is_about(generation_.id))
    stop_doubted();
  if (phase_ == Phase::kRunning) {
    judge_stalls();
    give_up_step_if_short();
    cut_for_newcomers();
    save_again_if_lost();
  }
  judge_writers();
  check_deadlines();
}

// A coordinator that was itself held up (suspended, or starved on an overloaded machine) has heard nobody
// meanwhile: that says nothing about the others, whose words still wait in its queue.
void Coordinator::forgive_own_delay() {
  const Time gap = now_ - ticked_;
  if (gap <= config_.lost_after / 4) return;
  ticked_ = now_;
  there_.forgive(gap, gap >= config_.lost_after, now_);
  wait_until_ += gap;
  gather_until_ += gap;
  hold_until_ += gap;
}

void Coordinator::check_deadlines() {
  if (phase_ == Phase::kGathering) {
    // An older coordinator of this attempt died over its last words.
    if (config_.restarted && !any_formed_ && run_is_complete())
      return end({0, str("finished: ", counted(config_.job.steps, "step")), ""});
    return now_ >= gather_until_ ? gather_time_is_over() : form_if_possible();
  }
  if (now_ < wait_until_) return;
  if (phase_ == Phase::kAdopting) {
    for (const std::string& member : generation_.members) {
      if (!there_.trainers.contains(member)) generation_.gone.insert(member);
    }
    return go_on_if_adopted();
  }
  if (phase_ == Phase::kParking) {
    for (const std::string& member : std::vector(generation_.members)) {
      auto* const found = there_.find(member);
      if (found == nullptr || !found->moving()) continue;
      // Writing cannot be interrupted, and storage may be slow; hanging there is judged by itself.
      if (found->beat.phase == TrainerPhase::kWriting) continue;
      kill(member, "it did not park");
      if (phase_ != Phase::kParking) return;
    }
  }
  if (phase_ == Phase::kQuitting) {
    // Whoever has not gone by now is stuck; supervisor and workers end what is left.
    there_.trainers.clear();
    finish_if_quiet();
  }
}

bool Coordinator::run_is_complete() const {
  return committed_step() == config_.job.steps &&
         (config_.job.test_samples == 0 || log_.is_evaluated(config_.job.steps));
}

void Coordinator::gather_time_is_over() {
  if (!any_formed_ && there_.trainers.empty() && !config_.restarted)
    return give_up(faults_.start_tries.end("no trainer came up within the gather time"));
  if (!there_.trainers.empty() && there_.trainers.size() >= config_.job.min_trainers) return form();
  stop_.ask({75, "too few trainers", Time(0)}, now_);
  const std::string few = str("fewer than ", config_.job.min_trainers, " trainers for ",
                              config_.gather_time.count() / 1000, " s");
  if (nothing_to_save(origin())) {
    Finish finish = saved_finish(committed_step().value_or(0));
    finish.line = str(few, ": ", finish.line);
    return end(finish);
  }
  if (!stop_.too_few) emit(Warn{str(few, ": the state is written and the run stops")});
  stop_.too_few = true;
  form_if_possible();
}

// A stop that must be over soon cannot wait for a step that takes longer: the state before it is written.
void Coordinator::give_up_step_if_short() {
  if (!stop_ || stop_.step_given_up || generation_.saves || phase_ != Phase::kRunning) return;
  bool writing = false;
  for (const auto& [name, trainer] : there_.trainers) {
    writing = writing || trainer.parked || trainer.beat.phase == TrainerPhase::kWriting;
  }
  if (writing || ledger_.open.any_that_parks()) return;  // the cut has been
  if (!stop_.is_too_short_for_a_step(now_, ledger_.open.write_time)) return;
  stop_.step_given_up = true;
  emit(Tell{str("the step in flight takes too long: the state of step ", step_, " is written instead")});
  abort_members();
}

// ---- the end ----

void Coordinator::give_up(Finish finish) {
  if (ending_ || phase_ == Phase::kEnded) return;
  ending_ = std::move(finish);
  if (phase_ == Phase::kRunning || phase_ == Phase::kAdopting) {
    abort_members();
    if (everyone_parked()) quit_all();
  } else if (phase_ != Phase::kParking) {
    quit_all();
  }
}

void Coordinator::end(Finish finish) {
  if (ending_) return;
  ending_ = std::move(finish);
  quit_all();
}

void Coordinator::quit_all() {
  phase_ = Phase::kQuitting;
  wait_until_ = now_ + config_.quit_deadline;
  for (const auto& [name, trainer] : there_.trainers) emit(SendTrainer{trainer.worker, name, Quit{}});
  finish_if_quiet();
}

void Coordinator::finish_if_quiet() {
  if (phase_ != Phase::kQuitting || !there_.trainers.empty()) return;
  phase_ = Phase::kEnded;
  for (const auto& [name, worker] : there_.workers) {
    emit(DismissWorker{name, {ending_->exit_code, ending_->line}});
  }
  emit(*ending_);
}

std::string Coordinator::resume_hint() const {
  // The output of a Slurm job says whether Slurm starts the next attempt.
  const std::string again =
      launched_by_slurm(config_.job) ? "the next attempt " : "run the same command again: it ";
  if (const auto step = committed_step()) return str(again, "goes on from step ", *step);
  return str(again, "starts from the beginning, nothing was saved yet");
}

bool Coordinator::current(const GenerationId& id) const {
  if (planted(Bug::kNoGenerationCheck)) return true;
  return id == generation_.id &&
         (phase_ == Phase::kRunning || phase_ == Phase::kParking || phase_ == Phase::kAdopting);
}

void Coordinator::send(const std::string& trainer, ToTrainer message) {
  auto* const found = there_.find(trainer);
  if (found != nullptr) emit(SendTrainer{found->worker, trainer, std::move(message)});
}

}  // namespace rekindle::protocol
