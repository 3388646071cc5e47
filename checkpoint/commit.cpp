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

// A directory with a checkpoint's name must hold that checkpoint: a manifest that was copied there is
// refused.
Status check_place(const fs::path& checkpoint_dir, const Manifest& manifest) {
  std::error_code code;
  // As it was named, and as it is called where a link leads to.
  for (const fs::path& place : {checkpoint_dir, fs::weakly_canonical(checkpoint_dir, code)}) {
    const auto id = CheckpointId::parse(place.filename().string());
    if (id && *id != manifest.id) return fail(str("it belongs to ", manifest.id.directory_name()));
  }
  return {};
}

}  // namespace

Status commit(const fs::path& run_dir, const Manifest& manifest, std::chrono::milliseconds patience) {
  Manifest ordered = manifest;
  std::ranges::sort(ordered.shards, {}, &ShardEntry::file);
  const fs::path directory = directory_of(run_dir, ordered.id);
  const auto refused = [&directory](Error error) {
    error.what = str("cannot commit ", directory.string(), ": ", error.what);
    return forward_error(std::move(error));
  };
  if (Status status = check_manifest(ordered); !status) return refused(status.error());
  for (const ShardEntry& shard : ordered.shards) {
    if (!await_file(directory / shard.file, patience)) break;
  }
  if (Status status = check_files(directory, ordered); !status) return refused(status.error());
  auto text = manifest_text(ordered);
  if (!text) return refused(text.error());

  const fs::path path = directory / kManifestFile;
  std::error_code code;
  const bool committed = fs::exists(path, code);
  if (code) return refused({ExitCode::kGaveUp, str("cannot look for its manifest: ", code.message()), {}});
  if (committed) {
    // Asked again because the answer to the first time got lost: the same checkpoint is fine.
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
  // Where there is no room for the manifest, that file may be what was in its way next time.
  if (!renamed) ::unlink((directory / kVirtualFile).c_str());
  return renamed;
}

namespace {

// Missing is only what is missing from a folder that is there: else the storage is away. `seen`: what the
// look at the manifest said; another look might say something else.
Error no_manifest(const fs::path& checkpoint_dir, const std::error_code& seen) {
  std::error_code around;
  const bool there = fs::is_directory(checkpoint_dir.parent_path(), around);
  const bool missing =
      !seen || seen == std::errc::no_such_file_or_directory || seen == std::errc::not_a_directory;
  if (there && missing) return no_manifest_error(checkpoint_dir);
  return {ExitCode::kGaveUp, str(checkpoint_dir.string(), kNotCommitted),
          there ? seen.message() : "its folder is not there: is the storage?", true};
}

}  // namespace

Result<Manifest> read_manifest(const fs::path& checkpoint_dir, std::chrono::milliseconds patience) {
  const fs::path path = checkpoint_dir / kManifestFile;
  std::ignore = await_file(path, patience);
  std::error_code code;
  if (!fs::is_regular_file(path, code)) return forward_error(no_manifest(checkpoint_dir, code));
  const auto bytes = fs::file_size(path, code);
  if (code) return forward_error(no_manifest(checkpoint_dir, code));
  if (bytes > kMaxManifestBytes) return damaged(path, str("it has ", bytes, " bytes"));
  REKINDLE_TRY(const std::string text, read_text(path));
  auto manifest = parse_manifest(text);
  if (!manifest && manifest.error().code == ExitCode::kConfig) {  // it is whole, and not ours to read
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
