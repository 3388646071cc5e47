#include <unistd.h>

#include <algorithm>

#include "base/files.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/names.hpp"

namespace rekindle::checkpoint {
namespace {

// Every directory with a checkpoint's name, newest first.
std::vector<CheckpointId> list_all(const fs::path& run_dir) {
  std::vector<CheckpointId> ids;
  std::error_code code;
  for (fs::directory_iterator entry(checkpoints_of(run_dir), code), end; !code && entry != end;
       entry.increment(code)) {
    const auto id = CheckpointId::parse(entry->path().filename().string());
    if (std::error_code ignored; id && entry->is_directory(ignored)) ids.push_back(*id);
  }
  std::ranges::sort(ids, std::greater{});
  return ids;
}

bool is_committed(const fs::path& run_dir, const CheckpointId& id) {
  std::error_code code;
  return fs::is_regular_file(directory_of(run_dir, id) / kManifestFile, code);
}

}  // namespace

std::vector<CheckpointId> list_committed(const fs::path& run_dir) {
  std::vector<CheckpointId> ids = list_all(run_dir);
  std::erase_if(ids, [&run_dir](const CheckpointId& id) { return !is_committed(run_dir, id); });
  return ids;
}

Status set_aside(const fs::path& run_dir, const CheckpointId& id) {
  const fs::path directory = directory_of(run_dir, id);
  return rename_durably(directory, str(directory.string(), ".damaged"));
}

Status discard(const fs::path& run_dir, const CheckpointId& id) {
  const fs::path directory = directory_of(run_dir, id);
  const fs::path manifest = directory / kManifestFile;
  if (::unlink(manifest.c_str()) == 0) {
    // Durable before the first shard goes: no crash may show a committed checkpoint that lacks files.
    REKINDLE_CHECK(sync_directory(directory));
  } else if (errno != ENOENT) {
    return forward_error(errno_error("cannot remove", manifest));
  }
  std::error_code code;
  fs::remove_all(directory, code);
  if (code) return fail(str("cannot remove ", directory.string(), ": ", code.message()));
  return sync_directory(checkpoints_of(run_dir));
}

Status sweep(const fs::path& run_dir, int keep, std::uint64_t current_term,
             std::optional<std::uint64_t> best) {
  std::vector<CheckpointId> old;
  std::optional<CheckpointId> newest;
  int kept = 0;
  for (const CheckpointId& id : list_all(run_dir)) {
    if (is_committed(run_dir, id)) {
      if (!newest) newest = id;
      const bool is_best = id.step == best;
      if (is_best) best.reset();
      if (++kept > keep && !is_best) old.push_back(id);
    } else if (id.term <= current_term && newest && id.step < newest->step) {
      old.push_back(id);  // nobody writes it any more: the trainers have gone past it
    }
  }
  Status first_failure;
  for (const CheckpointId& id : old) {
    if (Status status = discard(run_dir, id); !status && first_failure) first_failure = std::move(status);
  }
  return first_failure;
}

}  // namespace rekindle::checkpoint
