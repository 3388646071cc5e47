#include "protocol/trainer_control.hpp"

#include <algorithm>

#include "base/planted.hpp"
#include "base/text.hpp"

namespace rekindle::protocol {

bool TrainerControl::on_message(const ToTrainer& message) {
  return std::visit([this](const auto& each) { return take(each); }, message);
}

bool TrainerControl::take(const Start& start) {
  // An older Start may arrive after its own Abort, or after a message of a newer coordinator.
  if (start.generation <= newest_ && !planted(Bug::kNoGenerationCheck)) return false;
  newest_ = start.generation;
  start_ = start;
  return false;
}

bool TrainerControl::take(const Stop& stop) {
  stop_ = std::max(stop_, stop.generation);
  return false;
}

bool TrainerControl::take(const PauseForJoin& pause) {
  pause_ = std::max(pause_, pause.generation);
  return false;
}

bool TrainerControl::take(const Save& save) {
  save_ = std::max(save_, save.generation);
  return false;
}

bool TrainerControl::take(const Abort& abort) {
  abort_ = std::max(abort_, abort.generation);
  if (planted(Bug::kNoGenerationCheck)) return inside_;
  return inside_ && abort.generation >= generation_;
}

bool TrainerControl::take(const Quit&) {
  quit_ = true;
  start_.reset();
  return inside_;
}

std::optional<Start> TrainerControl::next_start() {
  if (quit_) return std::nullopt;
  return std::exchange(start_, std::nullopt);
}

void TrainerControl::enter(const GenerationId& generation) {
  generation_ = generation;
  inside_ = true;
}

void TrainerControl::leave() { inside_ = false; }

bool TrainerControl::aborted() const {
  // A newer Start means that the coordinator has ended the current generation.
  return inside_ && (quit_ || abort_ >= generation_ || newest_ > generation_);
}

std::uint32_t TrainerControl::flags() const {
  std::uint32_t flags = 0;
  if (stop_ == generation_) flags |= kStopFlag;
  if (pause_ == generation_) flags |= kPauseFlag;
  if (postponed_ || save_ == generation_) flags |= kCheckpointFlag;
  return flags;
}

Next after_start(const Job& job, const Start& start) {
  Next next;
  next.evaluate = start.evaluate && !start.stop;
  next.write = !start.saved && (start.stop || start.step == job.steps || (job.keep_best && next.evaluate));
  next.pause = start.stop || start.step == job.steps;
  // A stop leaves an evaluation that is due to the next attempt, so the run is not finished yet.
  const bool complete = start.step == job.steps && !(start.stop && start.evaluate);
  next.reason = complete ? PauseReason::kFinished : PauseReason::kAgreed;
  return next;
}

Next after_step(const Job& job, std::uint64_t step, std::uint32_t flags) {
  Next next;
  const bool stop = (flags & kStopFlag) != 0, last = step == job.steps;
  const bool due =
      (flags & kCheckpointFlag) != 0 || (job.checkpoint_every > 0 && step % job.checkpoint_every == 0);
  // The evaluated state may be the best one, so it must be saved before the next step changes it.
  const bool evaluated = job.keep_best && evaluation_due(job, step);
  next.write = stop || last || evaluated || (due && (flags & kWritingFlag) == 0);
  next.postponed = due && !next.write;
  next.evaluate = !stop && evaluation_due(job, step);
  next.pause = stop || last || (flags & kPauseFlag) != 0;
  next.reason = last && !stop ? PauseReason::kFinished : PauseReason::kAgreed;
  return next;
}

std::optional<StepsDone> missed_steps(const Start& start, std::deque<StepDone>& history) {
  while (!history.empty() && history.back().step > start.step) history.pop_back();
  StepsDone missed{start.generation, {}};
  for (const StepDone& done : history) {
    if (done.step > start.recorded) missed.steps.push_back(done);
  }
  const bool first_source = !start.sources.empty() && start.sources.front() == start.rank;
  if (!first_source || missed.steps.empty()) return std::nullopt;
  return missed;
}

std::optional<std::string> refusal(const Start& start, const ReplicaState& replica) {
  if (std::find(start.sources.begin(), start.sources.end(), start.rank) == start.sources.end())
    return std::nullopt;
  if (replica.valid && replica.step == start.step) return std::nullopt;
  return replica.valid ? str("Start expects the state of step ", start.step,
                             ", but this trainer has the state of step ", replica.step)
                       : str("Start expects the state of step ", start.step,
                             ", but the state of this trainer is not valid");
}

bool hash_due(const Job& job, std::uint64_t step, int ranks) {
  return ranks > 1 && job.hash_every > 0 && step > 0 && step % job.hash_every == 0;
}

Comparison compare_hashes(const std::vector<Hash128>& hashes) {
  Comparison result;
  std::size_t best = 0;
  const Hash128* majority = nullptr;
  for (const Hash128& hash : hashes) {
    const auto votes = static_cast<std::size_t>(std::count(hashes.begin(), hashes.end(), hash));
    if (votes > best) {
      best = votes;
      majority = &hash;
    }
  }
  result.equal = best == hashes.size();
  if (result.equal || 2 * best <= hashes.size()) return result;
  for (std::size_t rank = 0; rank < hashes.size(); ++rank) {
    if (hashes[rank] != *majority) result.minority.push_back(static_cast<int>(rank));
  }
  return result;
}

}  // namespace rekindle::protocol
