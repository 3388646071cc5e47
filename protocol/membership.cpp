#include "protocol/membership.hpp"

#include <algorithm>

#include "base/invariant.hpp"
#include "base/planted.hpp"

namespace rekindle::protocol {

KnownTrainer* Membership::find(const std::string& trainer) {
  const auto found = trainers.find(trainer);
  return found == trainers.end() ? nullptr : &found->second;
}

const KnownTrainer* Membership::find(const std::string& trainer) const {
  const auto found = trainers.find(trainer);
  return found == trainers.end() ? nullptr : &found->second;
}

bool Membership::joined(const std::string& worker) const {
  const auto found = workers.find(worker);
  return found != workers.end() && found->second.joined;
}

bool Membership::own_trainer_there() const {
  return std::ranges::any_of(trainers, [this](const auto& entry) { return !joined(entry.second.worker); });
}

std::string Membership::host_of(const std::string& worker) const {
  const auto found = workers.find(worker);
  return found == workers.end() ? "" : found->second.host;
}

bool Membership::others_than(const std::string& host) const {
  return std::ranges::any_of(workers, [&](const auto& entry) { return entry.second.host != host; });
}

std::vector<std::string> Membership::workers_on(const std::string& host) const {
  std::vector<std::string> names;
  for (const auto& [name, worker] : workers) {
    if (worker.host == host) names.push_back(name);
  }
  return names;
}

std::vector<std::string> Membership::trainers_of(const std::string& worker) const {
  std::vector<std::string> names;
  for (const auto& [name, trainer] : trainers) {
    if (trainer.worker == worker) names.push_back(name);
  }
  return names;
}

std::size_t Membership::slots() const {
  std::size_t all = 0;
  for (const auto& [name, worker] : workers) all += static_cast<std::size_t>(worker.slots);
  return all;
}

int Membership::own_slots(const std::string& host) const {
  int slots = 0;
  for (const auto& [name, worker] : workers) {
    if (worker.host == host && !worker.joined) slots += worker.slots;
  }
  return slots;
}

bool Membership::own_trainer_ready_on(const std::string& host) const {
  return std::ranges::any_of(trainers, [&](const auto& entry) {
    return host_of(entry.second.worker) == host && !joined(entry.second.worker);
  });
}

// ---- time ----

std::vector<std::string> Membership::silent_workers(Time now, Time limit) const {
  std::vector<std::string> names;
  for (const auto& [name, worker] : workers) {
    if (now - worker.last_seen > limit) names.push_back(name);
  }
  return names;
}

std::vector<std::string> Membership::silent_trainers(Time now, Time limit) const {
  std::vector<std::string> names;
  for (const auto& [name, trainer] : trainers) {
    if (now - trainer.last_seen > limit) names.push_back(name);
  }
  return names;
}

std::vector<std::string> Membership::hung(Time now, Time limit) const {
  std::vector<std::string> names;
  for (const auto& [name, trainer] : trainers) {
    const bool waits = (trainer.beat.waiting_for >= 0 && !planted(Bug::kHangJudgesTheWaiting)) ||
                       trainer.waits_for_its_write();
    if (trainer.moving() && !waits && now - trainer.progressed > limit) names.push_back(name);
  }
  return names;
}

std::vector<std::string> Membership::stuck_writers(Time now, Time limit, Time most) const {
  std::vector<std::string> names;
  for (const auto& [name, trainer] : trainers) {
    const bool stuck = now - trainer.block_written > limit || now - trainer.writing_since > most;
    if (trainer.writing && stuck) names.push_back(name);
  }
  return names;
}

bool KnownTrainer::has_state() const {
  if (rank < 0) return false;
  if (paused) return paused->holds;
  switch (beat.phase) {
    case TrainerPhase::kStarting:
    case TrainerPhase::kIdle:
    case TrainerPhase::kConnecting:
    case TrainerPhase::kCopying:
    case TrainerPhase::kRestoring:
      return false;
    case TrainerPhase::kReading:
    case TrainerPhase::kComputing:
    case TrainerPhase::kExchanging:
    case TrainerPhase::kApplying:
    case TrainerPhase::kEvaluating:
    case TrainerPhase::kWriting:
      return true;
  }
  return false;
}

bool Membership::state_is_safe_from_storage() const {
  return std::ranges::any_of(
      trainers, [](const auto& entry) { return entry.second.has_state() && !entry.second.writing; });
}

void Membership::beat(const TrainerBeat& beat, Time now) {
  KnownTrainer* const trainer = find(beat.trainer);
  if (trainer == nullptr) return;
  const TrainerBeat& last = trainer->beat;
  trainer->last_seen = now;
  if (beat.progress != last.progress || beat.phase != last.phase || beat.generation != last.generation ||
      beat.waiting_for != last.waiting_for)
    trainer->progressed = now;
  if (beat.blocks_written != last.blocks_written) trainer->block_written = now;
  trainer->beat = beat;
  trainer->peak_pss_bytes = std::max(trainer->peak_pss_bytes, beat.peak_pss_bytes);
  if (planted(Bug::kHeldStepByControlThread) && trainer->paused) trainer->paused->held_step = beat.step;
}

void Membership::forgive(Time gap, bool is_long, Time now) {
  const auto forgiven = [&](Time since) { return is_long ? now : std::min(now, since + gap); };
  for (auto& [name, worker] : workers) worker.last_seen = forgiven(worker.last_seen);
  for (auto& [name, trainer] : trainers) {
    trainer.last_seen = forgiven(trainer.last_seen);
    trainer.writing_since += gap;
    trainer.block_written = std::min(now, trainer.block_written + gap);
    trainer.progressed = std::min(now, trainer.progressed + gap);
  }
}

void Membership::check() const {
  for (const auto& [name, trainer] : trainers) {
    invariant(workers.contains(trainer.worker), "a trainer's worker is unknown");
    invariant(trainer.rank >= -1, "a trainer's rank is negative");
    const bool stale = trainer.paused && trainer.rank < 0;
    invariant(!stale || planted(Bug::kNoGenerationCheck), "a trainer paused in no generation");
  }
}

}  // namespace rekindle::protocol
