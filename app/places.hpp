// Run directories and checkpoints as the command line names them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/file_path.hpp"
#include "base/result.hpp"
#include "checkpoint/export.hpp"
#include "run/layout.hpp"

namespace rekindle::app {

bool is_checkpoint(const FilePath& path);  // whether the directory has a manifest
// Run directories in this one, or in folders of it.
std::vector<std::filesystem::path> runs_inside(const run::Layout& layout);
// An error if the directory is neither a run nor a checkpoint.
Status must_be_run(const run::Layout& layout);
// The newest checkpoint (or that of `step`) of a run directory.
Result<FilePath> checkpoint_of(const FilePath& run_dir, std::optional<std::uint64_t> step);
// A checkpoint directory itself, or the newest checkpoint (or that of `step`) of a run directory. Both may
// belong to another user: files there are read without following links, and never executed.
Result<FilePath> find_checkpoint(const std::filesystem::path& path, std::optional<std::uint64_t> step);
// `step`; with `best`, the kept checkpoint of a run directory whose evaluation was the best (--keep-best).
Result<std::optional<std::uint64_t>> chosen_step(const std::filesystem::path& path,
                                                 std::optional<std::uint64_t> step, bool best);
// What to do about a damaged checkpoint of `path`. Empty: `path` is the checkpoint.
std::string hint_for_damage(const std::filesystem::path& path);
// Calls `read` (from a directory to a Result or Status) for that checkpoint. If a live run deletes the
// checkpoint meanwhile, `read` is called for the checkpoint that is then the newest.
template <class Read>
auto read_checkpoint(const std::filesystem::path& path, std::optional<std::uint64_t> step, Read read)
    -> decltype(read(FilePath(path))) {
  for (std::string tried;;) {
    REKINDLE_TRY(const FilePath directory, find_checkpoint(path, step));
    auto done = read(directory);
    // Each command that reads a damaged checkpoint exits with the same code.
    if (!done && done.error().kind == ErrorKind::kDamage) {
      done.error().code = ExitCode::kConfig;
      if (done.error().hint.empty()) done.error().hint = hint_for_damage(path);
    }
    if (done || is_checkpoint(directory) || directory.string() == tried) return done;
    tried = directory.string();
  }
}
// The step of the newest committed checkpoint; 0: none.
std::uint64_t saved_step(const run::Layout& layout);
// The run directory that `path` is, or that has the checkpoint `path`. Empty: none.
std::filesystem::path run_of(const std::filesystem::path& path);
std::filesystem::path without_slash(const std::filesystem::path& path);
// The path, or what is there of the folders above it: a run directory need not exist yet.
std::filesystem::path existing_part(std::filesystem::path path);

// The other names of tied tensors, if a checkpoint is of a script.
Result<std::vector<checkpoint::OtherName>> other_names_in(const checkpoint::Manifest& manifest);

}  // namespace rekindle::app
