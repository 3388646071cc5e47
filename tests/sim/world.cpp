#include "world.hpp"

#include <algorithm>
#include <csignal>

#include "base/text.hpp"
#include "coordinator.hpp"
#include "supervisor.hpp"
#include "trainer.hpp"
#include "worker.hpp"

namespace rekindle::sim {

using namespace protocol;

namespace {
constexpr Ms kRecovery = 200000;  // limit for the end of the run after the last fault and the last step
}

World::World(Plan plan, Coverage& coverage, std::ostream* transcript)
    : plan_(std::move(plan)),
      engine_(plan_.seed),
      disk_(engine_, plan_.lag_ms, plan_.checkpoint_lag_ms),
      network_(*this),
      right_(plan_.job, plan_.seed),
      coverage_(coverage),
      transcript_(transcript),
      checks_(*this) {}

// Trainers are unwound first, because unwinding a stack uses the other trainers and the meetings.
World::~World() {
  for (TrainerProcess* trainer : trainers_) trainer->unwind();
}

Outcome World::run() {
  begin_attempt();
  for (const PlannedFault& fault : plan_.faults) {
    if (!fault.trainer_phase && !fault.coordinator_phase) set_off(fault);
  }
  const auto where_it_stands = [this] {
    const CoordinatorProcess* up = coordinator();
    return str("coordinator ",
               up == nullptr ? "none" : to_text(const_cast<CoordinatorProcess*>(up)->machine()->phase()),
               ", step ", checks_.steps_done(), " of ", plan_.job.steps);
  };
  while (!over_ && violation_.empty()) {
    if (!engine_.run_one()) {
      violated(str("deadlock: nothing is ever going to happen again: ", where_it_stands()));
      break;
    }
    if (engine_.now() > std::max(last_fault_, checks_.got_on_at()) + kRecovery) {
      violated(str("the run does not end: ", where_it_stands()));
    }
  }
  return {violation_,    checks_.steps_done(), engine_.events(), faults_, checks_.generations_formed(),
          engine_.now(), bits_unknown_};
}

void World::begin_attempt() {
  ++attempt_;
  if (attempt_ > 1) disk_.stop_requested = false;
  stop_codes_.clear();
  checks_.new_attempt();
  const std::string head = str("head", attempt_);
  start_supervisor(head, false);
  for (int i = 0; i < plan_.workers; ++i) start_worker(str("h", i % plan_.hosts));
}

Meeting& World::meeting(const GenerationId& generation, std::size_t ranks) {
  Meeting& meeting = meetings_[generation];
  meeting.seats.resize(ranks);
  return meeting;
}

void World::meetings_look_again() {
  for (auto& [generation, meeting] : meetings_) meeting.changed();
}

// ---- processes ----

TrainerProcess& World::start_trainer(const std::string& name, WorkerProcess& worker) {
  auto process = std::make_unique<TrainerProcess>(*this, name, worker);
  TrainerProcess& trainer = *process;
  processes_.push_back(std::move(process));
  trainers_.push_back(&trainer);
  if (logging()) log(str(name, " starts"));
  trainer.begin();
  return trainer;
}

WorkerProcess& World::start_worker(const std::string& host, bool joined, const std::string& fingerprint) {
  auto process = std::make_unique<WorkerProcess>(*this, str("w", workers_.size()), host, joined, fingerprint);
  WorkerProcess& worker = *process;
  processes_.push_back(std::move(process));
  workers_.push_back(&worker);
  if (logging()) log(str(worker.name(), " starts on ", host));
  worker.begin();
  return worker;
}

CoordinatorProcess& World::start_coordinator(const std::string& host, Supervisor* supervisor,
                                             bool restarted) {
  auto process = std::make_unique<CoordinatorProcess>(*this, str("c", coordinators_.size()), host, supervisor,
                                                      restarted);
  CoordinatorProcess& coordinator = *process;
  processes_.push_back(std::move(process));
  coordinators_.push_back(&coordinator);
  if (logging()) log(str(coordinator.name(), " starts on ", host));
  coordinator.begin();
  return coordinator;
}

void World::start_supervisor(const std::string& host, bool takes_over) {
  auto process = std::make_unique<Supervisor>(*this, str("supervisor on ", host), host, takes_over);
  supervisor_ = process.get();
  processes_.push_back(std::move(process));
  supervisor_->begin();
}

TrainerProcess* World::trainer(const std::string& name) {
  const auto found = std::find_if(trainers_.begin(), trainers_.end(),
                                  [&](const TrainerProcess* t) { return t->name() == name; });
  return found == trainers_.end() ? nullptr : *found;
}

CoordinatorProcess* World::coordinator_of(std::uint64_t term) {
  for (CoordinatorProcess* coordinator : coordinators_) {
    if (coordinator->alive() && coordinator->term() == term && !head_is_cut_off(coordinator->host()))
      return coordinator;
  }
  return nullptr;
}

CoordinatorProcess* World::coordinator() {
  CoordinatorProcess* coordinator = supervisor_->coordinator();
  return coordinator != nullptr && coordinator->listening() ? coordinator : nullptr;
}

std::vector<WorkerProcess*> World::workers() {
  std::vector<WorkerProcess*> living;
  for (WorkerProcess* worker : workers_) {
    if (worker->alive()) living.push_back(worker);
  }
  return living;
}

std::vector<TrainerProcess*> World::trainers() {
  std::vector<TrainerProcess*> living;
  for (TrainerProcess* trainer : trainers_) {
    if (trainer->alive()) living.push_back(trainer);
  }
  return living;
}

// ---- events ----

void World::worker_ended(WorkerProcess& worker, bool by_signal, int code) {
  Supervisor* supervisor = supervisor_;
  supervisor->after(engine_.between(1, 20), [supervisor, &worker, by_signal, code] {
    supervisor->worker_ended(worker, by_signal, code);
  });
}

void World::run_ended(Supervisor& supervisor, const Finish& finish) {
  if (disk_.newest_term()->holder->host() != supervisor.host()) return;  // its coordinator was replaced
  const bool saved = finish.exit_code != 0 && finish.exit_code != 70;
  if (!saved || attempt_ >= plan_.attempts) {
    over_ = true;
    return;
  }
  // Supervisors are killed first, because they would restart the others.
  for (const auto& process : processes_) {
    if (dynamic_cast<Supervisor*>(process.get()) != nullptr) process->kill();
  }
  for (const auto& process : processes_) process->kill();
  engine_.after(engine_.between(100, 3000), [this] {
    fault_lasts_until(engine_.now());
    begin_attempt();
  });
}

// Another coordinator owns the run, and its supervisor continues.
void World::gave_way(Supervisor& supervisor) {
  if (&supervisor != supervisor_) return;
  const TermHolder* newest = disk_.newest_term();
  for (const auto& process : processes_) {
    auto* other = dynamic_cast<Supervisor*>(process.get());
    if (other == nullptr || other == &supervisor || !other->alive() || other->over()) continue;
    supervisor_ = other;
    if (newest != nullptr && newest->holder->host() == other->host()) return;
  }
}

void World::trainer_came_to(TrainerProcess& trainer, TrainerPhase phase) {
  for (PlannedFault& fault : plan_.faults) {
    if (fault.trainer_phase != phase || --fault.nth != 0) continue;
    focus_ = &trainer;
    set_off(fault);
  }
  if (crash_again_ > 0 && phase == TrainerPhase::kExchanging) crash_two(trainer.generation());
}

void World::coordinator_came_to(CoordinatorProcess&, Phase phase) {
  for (PlannedFault& fault : plan_.faults) {
    if (fault.coordinator_phase == phase && --fault.nth == 0) set_off(fault);
  }
}

// Crashes two trainers at once in this generation, which has made no step yet.
void World::crash_two(const GenerationId& generation) {
  if (!crashed_again_.insert(generation).second) return;
  --crash_again_;
  engine_.after(0, [this, generation] {
    int left = 2;
    for (TrainerProcess* trainer : trainers()) {
      if (!trainer->inside() || trainer->generation() != generation || left-- <= 0) continue;
      crash_injected();
      trainer->crash(SIGSEGV);
    }
  });
  fault_lasts_until(engine_.now());
}

// ---- faults ----

void World::set_off(const PlannedFault& fault) {
  engine_.after(fault.at, [this, kind = fault.fault] { inject_now(kind); });
}

void World::inject_now(Fault fault) {
  if (over_) return;
  if (logging()) log(str("FAULT ", to_text(fault)));
  if (!inject(*this, fault)) return;
  ++faults_;
  fault_lasts_until(engine_.now());
}

void World::cut_off_head(const std::string& host, bool off) {
  if (off)
    cut_off_[host] = {engine_.now(), {}};
  else
    cut_off_[host].until = engine_.now();
}

void World::ask_stop(int exit_code, Ms within, bool by_file) {
  if (by_file) {
    stop_codes_.insert(75);
    disk_.stop_requested = true;
    return;
  }
  stop_codes_.insert(exit_code);
  supervisor_->ask_stop({exit_code, "SIGUSR1", Time(within)});
}

// ---- verdicts ----

void World::violated(const std::string& what) {
  if (logging()) log(str("VIOLATION ", what));
  if (violation_.empty()) violation_ = what;
}

// Ends the schedule: the promise of equal bits cannot be checked from here on.
void World::bits_are_void(const std::string& why) {
  if (logging()) log(why);
  over_ = bits_unknown_ = true;
}

void World::checks_stop(const Finish& finish) {
  if (stop_codes_.contains(finish.exit_code)) return;
  if (finish.exit_code == 75 && finish.cause == EndCause::kTooFewTrainers) return too_few();
  if (finish.exit_code == 75 && finish.cause == EndCause::kSamplesUnreadable)
    return samples_stay_away(finish);
  violated(str("nobody asked for this end (", finish.exit_code, "): ", finish.line));
}

// Called when a coordinator reports too few trainers and stops the run itself.
void World::too_few() {
  if (stop_codes_.contains(75)) return;
  std::uint64_t ready = 0;
  for (const TrainerProcess* trainer : trainers()) ready += trainer->ready() && !trainer->suspended() ? 1 : 0;
  stop_codes_.insert(75);
  if (ready >= plan_.job.min_trainers && engine_.now() > last_fault_ + plan_.timings.gather_time.count())
    violated(str("the run stops for want of trainers, and ", ready, " are there"));
}

}  // namespace rekindle::sim
