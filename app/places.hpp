// Run directories and checkpoints as the command line names them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/result.hpp"
#include "run/layout.hpp"

namespace rekindle::app {

bool is_checkpoint(const std::filesystem::path& path);  // it has a manifest
// An error for a directory that is neither.
Status must_be_run(const run::Layout& layout);
// The newest (or that of `step`) of a run directory.
Result<std::filesystem::path> checkpoint_of(const std::filesystem::path& run_dir,
                                            std::optional<std::uint64_t> step);
// A checkpoint directory itself, or the newest (or that of `step`) of a run directory.
Result<std::filesystem::path> find_checkpoint(const std::filesystem::path& path,
                                              std::optional<std::uint64_t> step);
// What `read` (of a directory, to a Result or Status) makes of that. A run that goes on may delete it
// meanwhile: then of the one that is the newest by then.
template <class Read>
auto read_checkpoint(const std::filesystem::path& path, std::optional<std::uint64_t> step, Read read)
    -> decltype(read(path)) {
  for (std::filesystem::path tried;;) {
    REKINDLE_TRY(const std::filesystem::path directory, find_checkpoint(path, step));
    auto done = read(directory);
    if (done || is_checkpoint(directory) || directory == tried) return done;
    tried = directory;
  }
}
std::filesystem::path without_slash(const std::filesystem::path& path);

}  // namespace rekindle::app
