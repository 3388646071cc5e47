// What follows from a listing of the checkpoints, as functions of values: which checkpoints a sweep deletes,
// and whether the newest checkpoint is missing.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "checkpoint/checkpoint.hpp"

namespace rekindle::checkpoint {

std::set<std::uint64_t> steps_of(const std::vector<CheckpointId>& checkpoints);

// A directory with a checkpoint's name.
struct Listed {
  CheckpointId id;
  bool committed = false;
};

struct SweepList {
  std::vector<CheckpointId> kept;  // committed ones that a sweep keeps on purpose
  std::vector<CheckpointId> old;   // to delete
};
// `all`: newest first.
SweepList sweep_list(const std::vector<Listed>& all, const SweepPlan& plan);

// The sweep after `restored` was read completely by `generation`. `noted`: what the file `newest` names. That
// checkpoint is committed for certain, even if its manifest cannot be seen yet.
SweepPlan plan_after_restore(const CheckpointId& restored, const CheckpointId& generation,
                             const std::optional<CheckpointId>& noted);

// Whether storage does not show the noted checkpoint or a newer one yet. `committed`: newest first.
// `set_aside`: the noted checkpoint was damaged and is not in use any more.
bool is_missing(const CheckpointId& noted, const std::vector<CheckpointId>& committed, bool set_aside);

// Whether a coordinator may delete a checkpoint that it gave up. The coordinator before it may have committed
// the checkpoint just before its end. `committed`: the manifest can be seen, which may come late on another
// host. `noted`: what the file `newest` names, whose content is not late.
bool may_abandon(const CheckpointId& id, bool committed, const std::optional<CheckpointId>& noted);

}  // namespace rekindle::checkpoint
