// Run directories and checkpoints as the command line names them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/file_path.hpp"
#include "base/result.hpp"
#include "run/layout.hpp"

namespace rekindle::app {

bool is_checkpoint(const FilePath& path);  // it has a manifest
// An error for a directory that is neither.
Status must_be_run(const run::Layout& layout);
// The newest (or that of `step`) of a run directory.
Result<FilePath> checkpoint_of(const FilePath& run_dir, std::optional<std::uint64_t> step);
// A checkpoint directory itself, or the newest (or that of `step`) of a run directory. Both may be another
// user's: what is in them is read without following links, and never executed.
Result<FilePath> find_checkpoint(const std::filesystem::path& path, std::optional<std::uint64_t> step);
// What `read` (of a directory, to a Result or Status) makes of that. A run that goes on may delete it
// meanwhile: then of the one that is the newest by then.
template <class Read>
auto read_checkpoint(const std::filesystem::path& path, std::optional<std::uint64_t> step, Read read)
    -> decltype(read(FilePath(path))) {
  for (std::string tried;;) {
    REKINDLE_TRY(const FilePath directory, find_checkpoint(path, step));
    auto done = read(directory);
    if (done || is_checkpoint(directory) || directory.string() == tried) return done;
    tried = directory.string();
  }
}
std::filesystem::path without_slash(const std::filesystem::path& path);

}  // namespace rekindle::app
