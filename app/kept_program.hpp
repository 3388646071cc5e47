// The programs that started a run, kept in its run directory with all non-system libraries. So a rebuild
// between two attempts, or a deleted checkout, does not affect the run. A trainer program of another project
// takes the place of rekindle-trainer.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "run/layout.hpp"

namespace rekindle::app {

// The folder of a run's Python script, beside its programs.
inline constexpr const char* kKeptScript = "script";

// What a run trains with, besides the programs of this build.
struct OwnParts {
  std::filesystem::path trainer;  // as LocalOptions::own_trainer
  std::filesystem::path script;   // of Python; empty: none
};

// Returns their folder; copies the programs of this build if none are kept yet. An error (ExitCode::kConfig)
// if the folder is not complete.
Result<FilePath> keep_program(const run::Layout& layout, const OwnParts& own);

// Whether these programs are kept ones, and the trainer program among them is that of another project.
bool has_kept_own_trainer();

// If the run has kept other programs than these, this process becomes the kept `rekindle` with the command
// line `arguments`, so that a rebuild does not change the run. Returns an exit code if that fails, and
// nullopt if the run has kept no others.
std::optional<int> go_on_as_kept(const std::filesystem::path& run_dir,
                                 const std::vector<std::string>& arguments);

// The same, but only if the run has kept a trainer program of another project: no other program can go on
// with that run.
std::optional<int> go_on_with_kept_trainer(const std::filesystem::path& run_dir,
                                           const std::filesystem::path& own_trainer,
                                           const std::vector<std::string>& arguments);

// Whether a run of `rekindle local`, whose processes were on this machine and are gone, has no checkpoint yet
// and has kept another build of this trainer program. It begins anew, so the changed program takes the place
// of the kept copy, which most often has a fault that the change mends.
bool begins_with_changed_trainer(const std::filesystem::path& run_dir,
                                 const std::filesystem::path& own_trainer);
// Before keep_program(), which keeps nothing beside it.
Status forget_kept_program(const run::Layout& layout);

}  // namespace rekindle::app
