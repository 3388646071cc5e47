#include <unistd.h>

#include <algorithm>
#include <tuple>

#include "base/files.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/failure.hpp"
#include "checkpoint/manifest_check.hpp"
#include "checkpoint/manifest_text.hpp"
#include "checkpoint/names.hpp"
#include "checkpoint/virtual_file.hpp"

namespace rekindle::checkpoint {
namespace {

// A directory with a checkpoint's name must contain that checkpoint: a manifest copied from another
// checkpoint is refused.
Status check_place(const FilePath& checkpoint_dir, const Manifest& manifest) {
  std::error_code code;
  // The path as given, and the real path if a person named a link.
  for (const fs::path& place : {checkpoint_dir.path(), fs::weakly_canonical(checkpoint_dir.path(), code)}) {
    const auto id = CheckpointId::parse(place.filename().string());
    if (id && *id != manifest.id) return fail(str("it belongs to ", manifest.id.directory_name()));
  }
  return {};
}

}  // namespace

void await_shards(const FilePath& run_dir, const Manifest& manifest, std::chrono::milliseconds patience) {
  const FilePath directory = directory_of(run_dir, manifest.id);
  for (std::size_t i = 0; i < manifest.shards.size(); ++i) {
    // No other file is waited for, whatever the writers reported.
    if (!await_file(directory / shard_file_name(manifest.shards.size(), i), patience)) break;
  }
}

Status commit(const FilePath& run_dir, const Manifest& manifest) {
  Manifest ordered = manifest;
  std::ranges::sort(ordered.shards, {}, &ShardEntry::file);
  const FilePath directory = directory_of(run_dir, ordered.id);
  const auto refused = [&directory](Error error) {
    error.what = str("cannot commit ", directory.string(), ": ", error.what);
    return forward_error(std::move(error));
  };
  if (Status status = check_manifest(ordered); !status) return refused(status.error());
  if (Status status = check_files(directory, ordered); !status) return refused(status.error());
  auto text = manifest_text(ordered);
  if (!text) return refused(text.error());

  const FilePath path = directory / kManifestFile;
  const auto committed = look_at(path);
  if (!committed) return refused(committed.error());
  if (*committed) {
    // The first answer was lost and the commit was requested again: the same checkpoint is fine.
    auto there = read_manifest(directory);
    if (!there) return refused(there.error());
    there->created = ordered.created;
    if (auto same = manifest_text(*there); !same || *same != *text) {
      return refused({ExitCode::kGaveUp, "another checkpoint is committed there", {}});
    }
    return sync_directory(directory);
  }
  if (Status shown = write_virtual_file(directory, ordered); !shown)
    log_warning(str("no ", kVirtualFile, " in ", directory.string(), ": ", shown.error().line()));
  Status renamed = replace_file(path, *text);
  // If storage has no space for the manifest, remove this file: its space may be enough for the next attempt.
  if (!renamed) std::ignore = remove_file(directory / kVirtualFile);
  return renamed;
}

namespace {

// A manifest is missing only if its folder exists; otherwise the storage is not available. `seen`: the result
// of the look at the manifest; another look might have another result.
Error no_manifest(const FilePath& checkpoint_dir, const Result<std::optional<struct stat>>& seen) {
  const bool there = is_folder(checkpoint_dir.parent_path());
  if (there && seen) return no_manifest_error(checkpoint_dir);
  if (!seen && seen.error().code == ExitCode::kConfig) return seen.error();
  return {ExitCode::kGaveUp, str(checkpoint_dir.string(), kNotCommitted),
          there ? seen.error().what : "its folder does not exist: is the storage mounted?",
          ErrorKind::kSystem};
}

}  // namespace

Result<Manifest> read_manifest(const FilePath& checkpoint_dir, std::chrono::milliseconds patience) {
  const FilePath path = checkpoint_dir / kManifestFile;
  std::ignore = await_file(path, patience);
  const auto info = look_at_manifest(checkpoint_dir);
  if (!info || !*info || !S_ISREG((*info)->st_mode)) return forward_error(no_manifest(checkpoint_dir, info));
  if (static_cast<std::uint64_t>((*info)->st_size) > kMaxManifestBytes)
    return damaged(path, str("it has ", (*info)->st_size, " bytes"));
  REKINDLE_TRY(const std::string text, read_text(path));
  auto manifest = parse_manifest(text);
  if (!manifest && manifest.error().code == ExitCode::kConfig) {  // complete, but of another format version
    manifest.error().what = str(path.string(), ": ", manifest.error().what);
    return forward_error(std::move(manifest.error()));
  }
  if (!manifest) return damaged(path, manifest.error().line());
  if (Status status = check_manifest(*manifest); !status) return damaged(path, status.error().line());
  if (Status status = check_place(checkpoint_dir, *manifest); !status)
    return damaged(path, status.error().line());
  return manifest;
}

}  // namespace rekindle::checkpoint
