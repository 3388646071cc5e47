#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/files.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/listing.hpp"
#include "checkpoint/names.hpp"

namespace rekindle::checkpoint {
namespace {

// Every directory (or other file of this type) with a checkpoint's name, newest first.
Result<std::vector<CheckpointId>> list_all(const FilePath& run_dir, mode_t type = S_IFDIR) {
  std::vector<CheckpointId> ids;
  REKINDLE_TRY(const auto names, names_in(checkpoints_of(run_dir)));
  for (const std::string& name : names) {
    const auto id = CheckpointId::parse(name);
    if (!id) continue;
    const FilePath directory = checkpoints_of(run_dir) / name;
    REKINDLE_TRY(const auto info, look_at(directory));
    if (info && (info->st_mode & S_IFMT) == type) ids.push_back(*id);  // no info: deleted meanwhile
  }
  std::ranges::sort(ids, std::greater{});
  return ids;
}

}  // namespace

Result<bool> is_committed(const FilePath& run_dir, const CheckpointId& id) {
  REKINDLE_TRY(const auto info, look_at_manifest(directory_of(run_dir, id)));
  return info && S_ISREG(info->st_mode);
}

Result<std::vector<CheckpointId>> find_committed(const FilePath& run_dir) {
  REKINDLE_TRY(std::vector<CheckpointId> ids, list_all(run_dir));
  // A checkpoint that cannot be examined stays in the list, and its reader reports the error. Otherwise the
  // run would use an older checkpoint without a message.
  std::erase_if(ids,
                [&run_dir](const CheckpointId& id) { return !is_committed(run_dir, id).value_or(true); });
  return ids;
}

std::vector<CheckpointId> list_committed(const FilePath& run_dir) {
  return find_committed(run_dir).value_or(std::vector<CheckpointId>());
}

Result<bool> has_saved(const FilePath& run_dir) {
  REKINDLE_TRY(const auto committed, find_committed(run_dir));
  REKINDLE_TRY(const auto names, names_in(checkpoints_of(run_dir)));
  return !committed.empty() || std::ranges::any_of(names, [](const std::string& name) {
    return name.find(kDamagedSuffix) != std::string::npos;
  });
}

Result<bool> has_set_aside(const FilePath& run_dir, std::uint64_t after) {
  REKINDLE_TRY(const auto names, names_in(checkpoints_of(run_dir)));
  return std::ranges::any_of(names, [after](const std::string& name) {
    const std::size_t end = name.find(kDamagedSuffix);
    const auto id = CheckpointId::parse(name.substr(0, end));
    return end != std::string::npos && id && id->step > after;
  });
}

Status set_aside(const FilePath& run_dir, const CheckpointId& id) {
  constexpr int kMostOfOneName = 9;  // the same checkpoint may be written and damaged again
  const FilePath directory = directory_of(run_dir, id);
  const std::string name = str(id.directory_name(), kDamagedSuffix);
  FilePath to = checkpoints_of(run_dir) / name;
  for (int i = 2; i <= kMostOfOneName && path_exists(directory) && path_exists(to); ++i)
    to = checkpoints_of(run_dir) / str(name, ".", i);
  return rename_durably(directory, to);
}

Status discard(const FilePath& run_dir, const CheckpointId& id) {
  const FilePath directory = directory_of(run_dir, id);
  const FilePath manifest = directory / kManifestFile;
  REKINDLE_TRY(const auto there, look_at(directory));
  if (!there) return {};
  if (S_ISLNK(there->st_mode)) return remove_file(directory);  // the link's target may be another run's
  REKINDLE_CHECK(remove_file(manifest));
  // The removal must be durable before the first shard is removed: no crash may show a committed checkpoint
  // without its files. Also sync if the manifest is missing: its remover may have died before the sync.
  REKINDLE_CHECK(sync_directory(directory));
  REKINDLE_CHECK(remove_tree(directory));
  return sync_directory(checkpoints_of(run_dir));
}

Status sweep(const FilePath& run_dir, const SweepPlan& plan) {
  REKINDLE_TRY(const std::vector<CheckpointId> links, list_all(run_dir, S_IFLNK));
  for (const CheckpointId& link : links) REKINDLE_CHECK(discard(run_dir, link));
  REKINDLE_TRY(const std::vector<CheckpointId> ids, list_all(run_dir));
  // What cannot be examined stays, as a checkpoint that the group may change, and counts for nothing: it must
  // not keep all others until the disk is full.
  Status first_failure;
  std::vector<Listed> all;
  for (const CheckpointId& id : ids) {
    auto committed = is_committed(run_dir, id);
    if (committed)
      all.push_back({id, *committed});
    else if (first_failure)
      first_failure = forward_error(std::move(committed.error()));
  }
  const auto [kept, old] = sweep_list(all, plan);
  if (old.empty()) return first_failure;
  // The process that committed a kept checkpoint may have died before its fsync. Then a power failure could
  // still remove that checkpoint, so sync it before deleting the old ones.
  for (const CheckpointId& id : kept) REKINDLE_CHECK(sync_directory(directory_of(run_dir, id)));
  for (const CheckpointId& id : old) {
    if (Status status = discard(run_dir, id); !status && first_failure) first_failure = std::move(status);
  }
  return first_failure;
}

}  // namespace rekindle::checkpoint
