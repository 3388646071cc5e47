// The commands that inspect a run or files.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "run/layout.hpp"

namespace rekindle::app {

// Writes a stop request to the run directory, where every coordinator of this attempt finds it. An error if
// there is no live run.
Status request_stop(const std::filesystem::path& run_dir);
// The same without the check for a live run.
Status write_stop_request(const run::Layout& layout);

// The digest of a run's newest checkpoint (or of the one at `step`), or of a checkpoint directory: recomputed
// from verified bytes. One line.
Status digest(const std::filesystem::path& path, std::optional<std::uint64_t> step);

// Converts a checked .safetensors or .h5 file of another program to .safetensors, .h5 or .pt.
Status import_file(const std::filesystem::path& file, const std::filesystem::path& out, bool force);

struct ExportOptions {
  std::optional<std::uint64_t> step;  // of a run; nullopt: the newest checkpoint
  bool with_optimizer = false, raw = false;
  bool force = false;  // overwrite
};

// Exports a checkpoint, or one of a run directory, as .safetensors, .h5 or .pt
// (checkpoint/export.hpp). Prints a summary.
Status export_to(const std::filesystem::path& path, const std::filesystem::path& file,
                 const ExportOptions& options);

// Writes synthetic images or text (data/dataset.hpp). Prints a summary.
Status make_data(const std::string& kind, const std::filesystem::path& path, std::uint64_t samples,
                 std::uint64_t seed);

}  // namespace rekindle::app
