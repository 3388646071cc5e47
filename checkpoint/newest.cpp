#include <fcntl.h>

#include <algorithm>
#include <thread>
#include <tuple>

#include "base/files.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/listing.hpp"
#include "checkpoint/names.hpp"

namespace rekindle::checkpoint {
namespace {

std::optional<CheckpointId> missing(const FilePath& run_dir, const FilePath& note) {
  const auto id = noted_newest(note);
  if (!id) return std::nullopt;
  const auto committed = list_committed(run_dir);  // also refreshes this node's cache of the folder
  const auto names = names_in(checkpoints_of(run_dir));
  const bool set_aside = names && std::ranges::any_of(*names, [&](const std::string& name) {
                           return name.starts_with(id->directory_name() + kDamagedSuffix);
                         });
  return is_missing(*id, committed, set_aside) ? id : std::nullopt;
}

}  // namespace

Status note_newest(const FilePath& note, const CheckpointId& id) {
  return replace_file_quickly(note, id.directory_name() + "\n");
}

std::optional<CheckpointId> noted_newest(const FilePath& note) {
  constexpr std::size_t kMostBytes = 4096;
  const std::string text = read_text(note, kMostBytes).value_or("");
  return CheckpointId::parse(text.substr(0, text.find('\n')));
}

std::optional<CheckpointId> await_newest(const FilePath& run_dir, const FilePath& note,
                                         std::chrono::milliseconds patience,
                                         const std::function<bool()>& tired) {
  constexpr std::chrono::milliseconds kPause{50};
  std::ignore = open_file(note, O_WRONLY | O_CREAT | O_EXCL);
  for (const auto until = std::chrono::steady_clock::now() + patience;;) {
    auto id = missing(run_dir, note);
    if (!id || std::chrono::steady_clock::now() >= until || (tired && tired())) return id;
    std::this_thread::sleep_for(kPause);
  }
}

Status check_newest_usable(const FilePath& run_dir) {
  REKINDLE_TRY(const auto committed, find_committed(run_dir));
  if (committed.empty()) return {};
  const FilePath directory = directory_of(run_dir, committed.front());
  const auto manifest = read_manifest(directory);
  if (!manifest && manifest.error().code == ExitCode::kConfig) return forward_error(manifest.error());
  if (!manifest) return {};
  for (const ShardEntry& shard : manifest->shards) {
    const auto file = open_file(directory / shard.file, O_RDONLY | O_NONBLOCK);  // opening is the check
    if (!file && file.error().code == ExitCode::kConfig) return forward_error(file.error());
  }
  return {};
}

}  // namespace rekindle::checkpoint
