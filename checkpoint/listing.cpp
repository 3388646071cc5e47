#include "checkpoint/listing.hpp"

#include <algorithm>
#include <utility>

#include "base/planted.hpp"

namespace rekindle::checkpoint {
namespace {

// True if no process writes the checkpoint any more: the trainers are past its step; or its coordinator has
// ended and the trainers repeated the same step, which may be the last; or its generation has ended.
bool is_dead(const CheckpointId& id, const SweepPlan& plan) {
  const CheckpointId& newest = plan.newest;
  if (plan.dead_before &&
      std::pair(id.term, id.generation) < std::pair(plan.dead_before->term, plan.dead_before->generation))
    return true;
  if (id.step > newest.step || id.term > newest.term) return false;
  return id.step < newest.step || id.term < newest.term;
}

}  // namespace

std::set<std::uint64_t> steps_of(const std::vector<CheckpointId>& checkpoints) {
  std::set<std::uint64_t> steps;
  for (const CheckpointId& id : checkpoints) steps.insert(id.step);
  return steps;
}

SweepList sweep_list(const std::vector<Listed>& all, const SweepPlan& plan) {
  SweepList list;
  std::uint64_t of_this_line = 0;  // `newest` and the checkpoints before it
  bool has_best = false;
  for (const auto& [id, committed] : all) {
    const bool is_pinned = std::ranges::find(plan.pinned, id) != plan.pinned.end();
    if (!committed) {
      if (is_dead(id, plan) && !is_pinned) list.old.push_back(id);
      continue;
    }
    if (id.step > plan.newest.step) continue;
    const bool is_best = plan.best && id.step == *plan.best && !has_best;
    has_best = has_best || is_best;
    const bool is_new = id >= plan.newest || of_this_line < plan.keep;
    if (id <= plan.newest) ++of_this_line;
    (is_new || is_best || is_pinned ? list.kept : list.old).push_back(id);
  }
  return list;
}

SweepPlan plan_after_restore(const CheckpointId& restored, const CheckpointId& generation,
                             const std::optional<CheckpointId>& noted) {
  SweepPlan plan;
  plan.newest = restored;
  plan.dead_before = CheckpointId{0, generation.term, generation.generation};
  if (noted) plan.pinned.push_back(*noted);
  return plan;
}

bool is_missing(const CheckpointId& noted, const std::vector<CheckpointId>& committed, bool set_aside) {
  if (planted(Bug::kNewestNotAwaited)) return false;
  const bool there = !committed.empty() && committed.front() >= noted;
  return !there && !set_aside;
}

bool may_abandon(const CheckpointId& id, bool committed, const std::optional<CheckpointId>& noted) {
  return !committed && noted != id;
}

}  // namespace rekindle::checkpoint
