#include <algorithm>

#include "base/files.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/names.hpp"

namespace rekindle::checkpoint {

Status note_newest(const fs::path& note, const CheckpointId& id) {
  return replace_file(note, id.directory_name() + "\n");
}

std::optional<CheckpointId> find_missing(const fs::path& run_dir, const fs::path& note,
                                         std::chrono::milliseconds patience) {
  const std::string text = read_text(note).value_or("");
  const auto id = CheckpointId::parse(text.substr(0, text.find('\n')));
  if (!id) return std::nullopt;
  const fs::path directory = directory_of(run_dir, *id);
  const auto names = names_in(checkpoints_of(run_dir));
  const bool set_aside = names && std::ranges::any_of(*names, [&](const std::string& name) {
                           return name.starts_with(id->directory_name() + kDamagedSuffix);
                         });
  if (set_aside) return std::nullopt;
  const bool seen = await_file(directory, patience) && await_file(directory / kManifestFile, patience);
  return seen ? std::nullopt : id;
}

}  // namespace rekindle::checkpoint
