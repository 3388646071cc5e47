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
      gather_until_(now + config_.gather_time) {
  wait_until_ = config_.restarted ? now + config_.adopt_time : gather_until_;
  if (!config_.restorable.empty()) step_ = config_.restorable.front().step;
  const auto expected = static_cast<std::size_t>(std::max(config_.expected_trainers, 0));
  spares_reported_ = expected - std::min<std::size_t>(expected, config_.job.micro_batches);
  checkpoint_began_ = config_.restarted ? now - config_.unsaved : now;
}

std::optional<std::uint64_t> Coordinator::committed_step() const {
  if (config_.restorable.empty()) return std::nullopt;
  return config_.restorable.front().step;
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
  workers_[r.worker] = {r.host, r.slots, r.joined, now_};
  if (phase_ == Phase::kQuitting)
    return emit(DismissWorker{r.worker, {ending_->exit_code, "the run is over"}});
  // A trainer that it does not have any more died while nobody listened.
  std::vector<std::string> missing;
  for (const auto& [name, trainer] : trainers_) {
    if (trainer.worker != r.worker) continue;
    const bool there = std::any_of(r.trainers.begin(), r.trainers.end(),
                                   [&name = name](const TrainerState& t) { return t.ready.trainer == name; });
    if (!there) missing.push_back(name);
  }
  gone_.insert(missing.begin(), missing.end());
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
  const auto found = workers_.find(event.worker);
  if (found == workers_.end()) return emit(AskToRegister{event.worker});
  found->second.heard = now_;
  for (const TrainerBeat& beat : event.trainers) heard(event.worker, beat);
}

void Coordinator::handle(const WorkerLost& event) { lose_workers({event.worker}, event.why); }

void Coordinator::handle(const TrainerSaid& event) {
  const auto found = workers_.find(event.worker);
  if (found == workers_.end()) return;  // declared lost; its next beat makes it register again
  found->second.heard = now_;
  std::visit([&](const auto& message) { heard(event.worker, message); }, event.message);
}

void Coordinator::handle(const StopAsked& event) {
  if (ending_) return;
  if (event.within > Time(0)) {
    const Time until = now_ + event.within;
    stop_until_ = stop_until_ == Time(0) ? until : std::min(stop_until_, until);
  }
  if (!stop_) {
    stop_ = event;
    emit(Tell{str("stopping (", event.why, "): the step in flight is finished and the state is written")});
    if (phase_ == Phase::kRunning || phase_ == Phase::kAdopting) stop_members();
    if (phase_ == Phase::kRunning && everyone_parked()) regroup();
    if (phase_ == Phase::kGathering) form_if_possible();
  }
  give_up_step_if_short();
}

void Coordinator::keep_restorable(const std::vector<std::string>& kept, const std::string& besides) {
  if (kept.empty()) return;
  std::erase_if(config_.restorable, [&](const Restorable& each) {
    return each.checkpoint != besides && std::find(kept.begin(), kept.end(), each.checkpoint) == kept.end();
  });
}

void Coordinator::handle(const Swept& event) { keep_restorable(event.kept, restored_); }

void Coordinator::handle(const CommitDone& event) {
  checkpoints_.erase({event.step, event.generation});
  if (!event.error.empty()) {
    checkpoint_failed(event.step, event.error);
    if (!fenced_) emit(Abandon{event.generation, event.step});
    emit(Warn{str("checkpoint of step ", event.step, " was not committed: ", event.error)});
  } else {
    auto& all = config_.restorable;
    const auto older =
        std::find_if(all.begin(), all.end(), [&](const Restorable& r) { return r.step <= event.step; });
    all.insert(older, {event.checkpoint, event.step, event.fingerprint});
    keep_restorable(event.kept, event.checkpoint);  // which may not be seen yet
    failed_.erase(event.step);
    checkpoint_lost_ = false;
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
  if (phase_ == Phase::kRunning && must_restore_ && doubted_ == generation_) stop_doubted();
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
  // After a long one everybody may have been suspended too: all silence is forgiven. After a short one only
  // the time in which nothing could be heard: small delays, again and again, would hide every silence and
  // every hang.
  const bool is_long = gap >= config_.lost_after;
  const auto forgiven = [&](Time since) { return is_long ? now_ : std::min(now_, since + gap); };
  for (auto& [name, worker] : workers_) worker.heard = forgiven(worker.heard);
  for (auto& [name, trainer] : trainers_) {
    trainer.heard = forgiven(trainer.heard);
    trainer.writing_since += gap;
    trainer.progressed = std::min(now_, trainer.progressed + gap);
  }
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
    for (const std::string& member : members_) {
      if (!trainers_.contains(member)) gone_.insert(member);
    }
    return go_on_if_adopted();
  }
  if (phase_ == Phase::kParking) {
    for (const std::string& member : std::vector(members_)) {
      const auto found = trainers_.find(member);
      if (found == trainers_.end() || !found->second.moving()) continue;
      // Writing cannot be interrupted, and storage may be slow; hanging there is judged by itself.
      if (found->second.beat.phase == TrainerPhase::kWriting) continue;
      kill(member, "it did not park");
      if (phase_ != Phase::kParking) return;
    }
  }
  if (phase_ == Phase::kQuitting) {
    // Whoever has not gone by now is stuck; supervisor and workers end what is left.
    trainers_.clear();
    finish_if_quiet();
  }
}

bool Coordinator::run_is_complete() const {
  return committed_step() == config_.job.steps &&
         (config_.job.test_samples == 0 || config_.evaluated.contains(config_.job.steps));
}

void Coordinator::gather_time_is_over() {
  if (!any_formed_ && trainers_.empty() && !config_.restarted)
    return give_up(early_end("no trainer came up within the gather time"));
  if (!trainers_.empty() && trainers_.size() >= config_.job.min_trainers) return form();
  if (!stop_) stop_ = StopAsked{75, "too few trainers", Time(0)};
  const std::string few = str("fewer than ", config_.job.min_trainers, " trainers for ",
                              config_.gather_time.count() / 1000, " s");
  if (nothing_to_save(origin())) {
    Finish finish = saved_finish(committed_step().value_or(0));
    finish.line = str(few, ": ", finish.line);
    return end(finish);
  }
  if (!too_few_) emit(Warn{str(few, ": the state is written and the run stops")});
  too_few_ = true;
  form_if_possible();
}

// A stop that must be over soon cannot wait for a step that takes longer: the state before it is written.
void Coordinator::give_up_step_if_short() {
  if (!stop_ || stop_until_ == Time(0) || step_given_up_ || saves_ || phase_ != Phase::kRunning) return;
  bool writing = false;
  for (const auto& [name, trainer] : trainers_) {
    writing = writing || trainer.parked || trainer.beat.phase == TrainerPhase::kWriting;
  }
  for (const auto& [key, checkpoint] : checkpoints_) writing = writing || checkpoint.parks;
  if (writing) return;  // the cut has been
  const Time must_write_by = stop_until_ - write_time_;
  const bool known = step_time_ > Time(0);
  if (now_ < must_write_by && !(known && last_step_at_ + step_time_ > must_write_by)) return;
  step_given_up_ = true;
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
  for (const auto& [name, trainer] : trainers_) emit(SendTrainer{trainer.worker, name, Quit{}});
  finish_if_quiet();
}

void Coordinator::finish_if_quiet() {
  if (phase_ != Phase::kQuitting || !trainers_.empty()) return;
  phase_ = Phase::kEnded;
  for (const auto& [name, worker] : workers_) {
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

bool Coordinator::is_member(const std::string& trainer) const {
  return std::find(members_.begin(), members_.end(), trainer) != members_.end();
}

bool Coordinator::current(const GenerationId& id) const {
  if (planted(Bug::kNoGenerationCheck)) return true;
  return id == generation_ &&
         (phase_ == Phase::kRunning || phase_ == Phase::kParking || phase_ == Phase::kAdopting);
}

void Coordinator::send(const std::string& trainer, ToTrainer message) {
  const auto found = trainers_.find(trainer);
  if (found != trainers_.end()) emit(SendTrainer{found->second.worker, trainer, std::move(message)});
}

}  // namespace rekindle::protocol
