#include "protocol/coordinator.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace rekindle::protocol {

Coordinator::Coordinator(CoordinatorConfig config, Time now)
    : config_(std::move(config)), now_(now), gather_until_(now + config_.gather_time), ticked_(now) {
  generation_.term = config_.term;
  if (!config_.restorable.empty()) {
    step_ = config_.restorable.front().step;
    committed_step_ = step_;
  }
}

std::vector<Effect> Coordinator::on(Time now, const Event& event) {
  now_ = now;
  effects_.clear();
  if (phase_ != Phase::kEnded) std::visit([this](const auto& e) { handle(e); }, event);
  return std::move(effects_);
}

void Coordinator::handle(const WorkerJoined& event) { workers_[event.worker] = now_; }

void Coordinator::handle(const WorkerBeatSeen& event) {
  if (const auto found = workers_.find(event.worker); found != workers_.end()) found->second = now_;
}

void Coordinator::handle(const WorkerLost& event) {
  workers_.erase(event.worker);
  std::erase_if(trainers_, [&](const auto& entry) { return entry.second.worker == event.worker; });
  if (ending_) return finish_if_quiet();
  give_up(70, str("worker ", event.worker, " was lost (", event.why, ")"), resume_hint());
}

void Coordinator::handle(const TrainerSaid& event) {
  handle(WorkerBeatSeen{event.worker});
  std::visit([&](const auto& message) { heard(event.worker, message); }, event.message);
}

void Coordinator::handle(const StopAsked& event) {
  if (stop_ || ending_) return;
  stop_ = event;
  emit(Tell{str("stopping (", event.why, "): the step in flight is finished and the state is written")});
  if (phase_ == Phase::kGathering) {
    ending_ = Finish{event.exit_code, str("stopped before training began; ", resume_hint()), ""};
    return quit_all();
  }
  if (phase_ == Phase::kRunning) stop_members();
}

void Coordinator::stop_members() {
  for (const std::string& trainer : members_) emit(SendTrainer{trainer, Stop{generation_}});
}

void Coordinator::handle(const CommitDone& event) {
  pending_.erase(event.step);
  if (!event.error.empty()) {
    failed_[event.step] = event.error;
    emit(Abandon{event.generation, event.step});
    emit(Warn{str("checkpoint of step ", event.step, " was not committed: ", event.error,
                  "; training goes on and the next checkpoint tries again")});
  } else {
    if (!committed_step_ || *committed_step_ < event.step) committed_step_ = event.step;
    emit(Tell{str("checkpoint of step ", event.step, " is committed: checkpoints/", event.checkpoint)});
  }
  try_end();
}

void Coordinator::handle(const Fenced& event) {
  give_up(70, str("another coordinator has taken over this run (term ", event.by_term, ")"), "");
}

void Coordinator::handle(const Tick&) {
  // A coordinator that was itself held up (suspended, or starved on an overloaded machine) has heard nobody
  // meanwhile: that says nothing about the workers, whose beats still wait in its queue.
  if (now_ - ticked_ > config_.lost_after / 4) {
    for (auto& [worker, heard] : workers_) heard = now_;
    const Time gap = now_ - ticked_;
    gather_until_ += gap;
    park_until_ += gap;
    if (evidence_until_) *evidence_until_ += gap;
  }
  ticked_ = now_;
  for (const auto& [worker, heard] : workers_) {
    if (now_ - heard > config_.lost_after) {
      const std::string name = worker;
      return handle(WorkerLost{name, str("no heartbeat for ", config_.lost_after.count() / 1000, " s")});
    }
  }
  if (phase_ == Phase::kGathering && now_ >= gather_until_) {
    if (!trainers_.empty()) return form();
    give_up(70, "no trainer came up within the gather time", "look at the logs folder of the run directory");
  }
  if (phase_ == Phase::kRunning && evidence_until_ && now_ >= *evidence_until_) {
    give_up(70, evidence_, resume_hint());
  }
  if ((phase_ == Phase::kParking || phase_ == Phase::kQuitting) && now_ >= park_until_) {
    // Whoever has not parked or gone by now is stuck; supervisor and workers end what is left.
    if (!ending_) ending_ = Finish{70, "not every trainer stopped in time", resume_hint()};
    phase_ = Phase::kEnded;
    emit(*ending_);
  }
}

// ---- generations ----

void Coordinator::form() {
  const bool restores = restore_from_ < config_.restorable.size();
  if (restores && other_fingerprint() && config_.job.strict) {
    return give_up(78,
                   str("checkpoint ", config_.restorable[restore_from_].checkpoint,
                       " was written by another build or machine"),
                   "leave --strict out to go on with bits that may differ");
  }
  members_.clear();
  for (auto& [name, trainer] : trainers_) {
    trainer.rank = -1;
    trainer.parked.reset();
    if (members_.size() < config_.job.leaves) members_.push_back(name);
  }
  // A second try to restore deals the shards to other trainers: a bad node must not condemn a good
  // checkpoint.
  if (restore_tries_ % 2 == 1) std::reverse(members_.begin(), members_.end());
  ++generation_.number;
  phase_ = Phase::kRunning;
  pending_.clear();
  evidence_until_.reset();
  failed_.clear();
  step_ = restores ? config_.restorable[restore_from_].step : 0;
  config_.evaluated.erase(config_.evaluated.upper_bound(step_), config_.evaluated.end());
  Start start{generation_, 0, {}, {}, step_, restores ? config_.restorable[restore_from_].checkpoint : "",
              false};
  start.evaluate = evaluation_due(config_.job, step_) && !config_.evaluated.contains(step_);
  for (const std::string& member : members_) start.members.push_back(trainers_.at(member).ready.address);
  emit(Rewind{step_});
  show_members();
  for (const std::string& member : members_) {
    trainers_.at(member).rank = start.rank;
    emit(SendTrainer{member, start});
    ++start.rank;
  }
  if (stop_) stop_members();
}

bool Coordinator::other_fingerprint() const {
  const std::string& then = config_.restorable[restore_from_].fingerprint;
  return !then.empty() && then != trainers_.begin()->second.ready.fingerprint;  // alike in all
}

void Coordinator::show_members() {
  const bool restores = restore_from_ < config_.restorable.size();
  emit(Tell{restores ? str("generation ", to_text(generation_), " resumes from step ", step_,
                           " (checkpoints/", config_.restorable[restore_from_].checkpoint, ")")
                     : str("generation ", to_text(generation_), " starts from initial values")});
  if (restores && other_fingerprint()) {
    emit(
        Warn{str("the checkpoint was written by another build or machine; from here on the bits may differ: ",
                 config_.restorable[restore_from_].fingerprint, " then, ",
                 trainers_.at(members_[0]).ready.fingerprint, " now")});
  }
  const auto ranks = members_.size();
  const std::uint64_t leaves = config_.job.leaves;
  emit(Tell{"  rank  host             device  pid      leaves"});
  for (std::size_t r = 0; r < ranks; ++r) {
    const TrainerReady& ready = trainers_.at(members_[r]).ready;
    std::ostringstream row;
    row << "  " << std::left;
    const std::pair<std::string, int> cells[] = {
        {str(r), 6}, {ready.host, 17}, {ready.device, 8}, {str(ready.pid), 9}};
    for (const auto& [text, width] : cells) {
      row.width(width);
      row << text;
    }
    row << r * leaves / ranks << "-" << (r + 1) * leaves / ranks - 1;
    emit(Tell{row.str()});
  }
  if (trainers_.size() > ranks) {
    emit(Warn{str(trainers_.size() - ranks, " trainers wait as spares: --leaves ", leaves,
                  " caps how many can work at once")});
  }
}

void Coordinator::all_parked() {
  if (phase_ == Phase::kParking && ending_) return quit_all();
  bool restore_failed = false;
  std::string why;
  for (const std::string& member : members_) {
    const auto found = trainers_.find(member);
    if (found == trainers_.end()) continue;
    const Parked& parked = *found->second.parked;
    if (parked.reason == ParkReason::kRestoreFailed) {
      restore_failed = true;
      why = parked.detail;
    }
    if (parked.reason == ParkReason::kNonFinite) {
      return give_up(70, parked.detail, str("lower --lr or look at the data; ", resume_hint()));
    }
  }
  if (restore_failed) return retry_restore(why);
  try_end();
}

void Coordinator::retry_restore(const std::string& why) {
  std::set<std::string> hosts;
  for (const std::string& member : members_) {
    if (trainers_.contains(member)) hosts.insert(trainers_.at(member).ready.host);
  }
  const Restorable& bad = config_.restorable[restore_from_];
  if (hosts.size() > 1 && restore_tries_ % 2 == 0) {
    emit(Warn{str("checkpoint ", bad.checkpoint, " could not be restored (", why, "); other nodes try")});
    ++restore_tries_;
  } else {
    emit(Warn{str("checkpoint ", bad.checkpoint, " is damaged (", why,
                  "); it is set aside and the one before is used")});
    emit(SetAside{bad.checkpoint});
    ++restore_from_;
    restore_tries_ = 0;
    committed_step_.reset();
    if (restore_from_ < config_.restorable.size()) committed_step_ = config_.restorable[restore_from_].step;
  }
  form();
}

// ---- the end ----

// Ends the run when all members are parked at one step and that step is durable (or its checkpoint failed).
void Coordinator::try_end() {
  if (phase_ != Phase::kRunning || members_.empty()) return;
  std::uint64_t held = 0;
  bool finished = true;
  for (const std::string& member : members_) {
    const auto found = trainers_.find(member);
    if (found == trainers_.end() || !found->second.parked || !found->second.parked->holds) return;
    const Parked& parked = *found->second.parked;
    if (parked.reason != ParkReason::kCut && parked.reason != ParkReason::kFinished) return;
    finished = finished && parked.reason == ParkReason::kFinished;
    held = parked.held_step;
  }
  step_ = held;
  if (committed_step_ && *committed_step_ == held) {
    if (finished) {
      ending_ = Finish{0, str("finished: ", held, " steps"), ""};
    } else {
      ending_ = Finish{stop_ ? stop_->exit_code : 75,
                       str("stopped at step ", held, " of ", config_.job.steps,
                           ", the state is saved: run the same command again to go on"),
                       ""};
    }
  } else if (failed_.contains(held)) {
    ending_ = Finish{70, str("the state of step ", held, " could not be written: ", failed_.at(held)),
                     resume_hint()};
  } else {
    return;  // the commit is under way
  }
  quit_all();
}

void Coordinator::give_up(int exit_code, std::string what, std::string hint) {
  if (ending_ || phase_ == Phase::kEnded) return;
  ending_ = Finish{exit_code, std::move(what), std::move(hint)};
  if (phase_ == Phase::kRunning) {
    abort_members();
    finish_if_quiet();
  } else {
    quit_all();
  }
}

void Coordinator::abort_members() {
  phase_ = Phase::kParking;
  park_until_ = now_ + config_.park_deadline;
  for (const std::string& member : members_) {
    const auto found = trainers_.find(member);
    if (found != trainers_.end() && !found->second.parked) emit(SendTrainer{member, Abort{generation_}});
  }
}

void Coordinator::quit_all() {
  phase_ = Phase::kQuitting;
  park_until_ = now_ + config_.park_deadline;
  for (const auto& [name, trainer] : trainers_) emit(SendTrainer{name, Quit{}});
  finish_if_quiet();
}

void Coordinator::finish_if_quiet() {
  if (phase_ == Phase::kParking) {
    if (everyone_parked()) quit_all();
    return;
  }
  if (phase_ != Phase::kQuitting || !trainers_.empty()) return;
  phase_ = Phase::kEnded;
  emit(*ending_);
}

bool Coordinator::everyone_parked() const {
  return std::all_of(members_.begin(), members_.end(), [this](const std::string& member) {
    const auto found = trainers_.find(member);
    return found == trainers_.end() || found->second.parked;
  });
}

std::string Coordinator::resume_hint() const {
  if (committed_step_) return str("run the same command again: it goes on from step ", *committed_step_);
  return "run the same command again: it starts from the beginning, nothing was saved yet";
}

}  // namespace rekindle::protocol
