// The commands that look at a run or at files.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "run/layout.hpp"

namespace rekindle::app {

// One screen of what a run is doing (from its run directory), or the same as JSON. Prints to stdout.
Status show_status(const std::filesystem::path& run_dir, bool json);

// Leaves the wish to stop in the run directory, where every coordinator of this attempt finds it. An error if
// no run is going on there.
Status request_stop(const std::filesystem::path& run_dir);
// Whatever goes on there.
Status write_stop_request(const run::Layout& layout);

// The digest of a run's newest checkpoint (or of the one at `step`), or of a checkpoint directory: recomputed
// from verified bytes. One line.
Status digest(const std::filesystem::path& path, std::optional<std::uint64_t> step);

// A .safetensors or .h5 file of another program, checked, as .safetensors, .h5 or .pt.
Status import_file(const std::filesystem::path& file, const std::filesystem::path& out);

struct ExportOptions {
  bool with_optimizer = false;
  bool force = false;  // overwrite
};

// A checkpoint as .safetensors, .h5 or .pt (checkpoint/export.hpp); of a run directory, its newest. Prints
// what was written.
Status export_to(const std::filesystem::path& path, const std::filesystem::path& file,
                 const ExportOptions& options);

// Synthetic images (data/dataset.hpp). Prints what was written.
Status make_data(const std::string& kind, const std::filesystem::path& directory, std::uint64_t samples,
                 std::uint64_t seed);

}  // namespace rekindle::app
