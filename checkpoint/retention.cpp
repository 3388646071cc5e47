#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/files.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/names.hpp"

namespace rekindle::checkpoint {
namespace {

// Every directory with a checkpoint's name, newest first.
Result<std::vector<CheckpointId>> list_all(const fs::path& run_dir) {
  std::vector<CheckpointId> ids;
  REKINDLE_TRY(const auto names, names_in(checkpoints_of(run_dir)));
  for (const std::string& name : names) {
    const auto id = CheckpointId::parse(name);
    if (!id) continue;
    const fs::path directory = checkpoints_of(run_dir) / name;
    std::error_code code;
    const fs::file_type type = fs::status(directory, code).type();
    if (is_gone(code.value())) continue;  // deleted meanwhile
    if (type == fs::file_type::none)
      return fail(str("cannot look at ", directory.string(), ": ", code.message()));
    if (type == fs::file_type::directory) ids.push_back(*id);
  }
  std::ranges::sort(ids, std::greater{});
  return ids;
}

}  // namespace

Result<bool> is_committed(const fs::path& run_dir, const CheckpointId& id) {
  const fs::path path = directory_of(run_dir, id) / kManifestFile;
  std::error_code code;
  const fs::file_type type = fs::status(path, code).type();
  if (is_gone(code.value())) return false;
  if (type == fs::file_type::none) return fail(str("cannot look at ", path.string(), ": ", code.message()));
  return type == fs::file_type::regular;
}

Result<std::vector<CheckpointId>> find_committed(const fs::path& run_dir) {
  REKINDLE_TRY(std::vector<CheckpointId> ids, list_all(run_dir));
  // One of which nothing can be said is for its reader to refuse: an older one must not be used in silence.
  std::erase_if(ids,
                [&run_dir](const CheckpointId& id) { return !is_committed(run_dir, id).value_or(true); });
  return ids;
}

std::vector<CheckpointId> list_committed(const fs::path& run_dir) {
  return find_committed(run_dir).value_or(std::vector<CheckpointId>());
}

Result<bool> has_saved(const fs::path& run_dir) {
  REKINDLE_TRY(const auto committed, find_committed(run_dir));
  REKINDLE_TRY(const auto names, names_in(checkpoints_of(run_dir)));
  return !committed.empty() || std::ranges::any_of(names, [](const std::string& name) {
    return name.find(kDamagedSuffix) != std::string::npos;
  });
}

Status set_aside(const fs::path& run_dir, const CheckpointId& id) {
  constexpr int kMostOfOneName = 9;  // the same checkpoint may be written, and damaged, again
  const fs::path directory = directory_of(run_dir, id);
  fs::path to = str(directory.string(), kDamagedSuffix);
  std::error_code code;
  for (int i = 2; i <= kMostOfOneName && fs::exists(directory, code) && fs::exists(to, code); ++i)
    to = str(directory.string(), kDamagedSuffix, ".", i);
  return rename_durably(directory, to);
}

Status discard(const fs::path& run_dir, const CheckpointId& id) {
  const fs::path directory = directory_of(run_dir, id);
  const fs::path manifest = directory / kManifestFile;
  if (::unlink(manifest.c_str()) != 0 && !is_gone(errno)) {
    return forward_error(errno_error("cannot remove", manifest));
  }
  // Durable before the first shard goes: no crash may show a committed checkpoint that lacks files. Also
  // where there is no manifest: whoever removed it may have died before this.
  std::error_code code;
  const bool there = fs::exists(directory, code);
  if (is_gone(code.value())) return {};
  if (there || code) REKINDLE_CHECK(sync_directory(directory));
  fs::remove_all(directory, code);
  if (code && !is_gone(code.value()))
    return fail(str("cannot remove ", directory.string(), ": ", code.message()));
  return sync_directory(checkpoints_of(run_dir));
}

namespace {

// Nobody writes it any more: the trainers have gone past it; or its coordinator is gone and they have made
// the same step again, which may be the last one; or its generation is over, and another went on.
bool is_dead(const CheckpointId& id, const SweepPlan& plan) {
  const CheckpointId& newest = plan.newest;
  if (plan.dead_before &&
      std::pair(id.term, id.generation) < std::pair(plan.dead_before->term, plan.dead_before->generation))
    return true;
  if (id.step > newest.step || id.term > newest.term) return false;
  return id.step < newest.step || id.term < newest.term;
}

}  // namespace

Status sweep(const fs::path& run_dir, const SweepPlan& plan) {
  std::vector<CheckpointId> kept, old;
  std::uint64_t of_this_line = 0;  // `newest` and those before it
  auto best = plan.best;
  REKINDLE_TRY(const std::vector<CheckpointId> all, list_all(run_dir));
  for (const CheckpointId& id : all) {
    REKINDLE_TRY(const bool committed, is_committed(run_dir, id));
    const bool is_spared = std::ranges::find(plan.spared, id) != plan.spared.end();
    if (!committed) {
      if (is_dead(id, plan) && !is_spared) old.push_back(id);
      continue;
    }
    if (id.step > plan.newest.step) continue;
    const bool is_best = id.step == best;
    if (is_best) best.reset();
    const bool is_new = id >= plan.newest || of_this_line < plan.keep;
    if (id <= plan.newest) ++of_this_line;
    (is_new || is_best || is_spared ? kept : old).push_back(id);
  }
  if (old.empty()) return {};
  // Whoever committed them may have died just before its fsync: then the power could still take them, too.
  for (const CheckpointId& id : kept) REKINDLE_CHECK(sync_directory(directory_of(run_dir, id)));
  Status first_failure;
  for (const CheckpointId& id : old) {
    if (Status status = discard(run_dir, id); !status && first_failure) first_failure = std::move(status);
  }
  return first_failure;
}

}  // namespace rekindle::checkpoint
