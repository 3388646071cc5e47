// The state of a run, and the runs below a folder, from their directories alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "run/layout.hpp"
#include "run/terms.hpp"

namespace rekindle::view {

// A coordinator has claimed the run and has not written its first status.
inline constexpr const char* kStarting = "starting";
// status.json still says "running", and no process of the run is there.
inline constexpr const char* kWithoutReport = "ended without a report (killed?)";
// Slurm has the run's job in its queue: it was submitted and has not begun, or it was queued again. If the
// job was cancelled there, nothing in the run directory says so.
inline constexpr const char* kPending = "pending";

// The state of a run with this status.json: "running", kStarting, "finished", "saved", "failed", or that it
// ended without a report: after a kill the file still says "running". "new": no coordinator has been there.
// `holder`: the newest term, read after the file.
std::string state_of(const nlohmann::json& status, const std::optional<run::Holder>& holder);
// What to show for this state_of(): kPending in place of some "new", "saved" and "failed".
std::string shown_state(const run::Layout& layout, const std::string& state,
                        const std::optional<run::Holder>& holder);

struct RunSummary {
  std::filesystem::path directory;
  std::string state, shown;  // state_of(), shown_state()
  std::uint64_t attempt = 0, step = 0, steps = 0;
  std::optional<double> loss;  // of the newest step
  std::string updated;         // when; empty: never
  std::optional<run::Holder> holder;
  std::string problem;  // why nothing else is known; empty: nothing is wrong
};
RunSummary summarize(const std::filesystem::path& directory);

enum class Outcome {
  kGoesOn,
  kFinished,
  kFailed,
  kSaved,   // nobody but a person starts it again
  kGaveUp,  // saved; its job was to be queued again, and is not
  kLost     // without a report: all its processes were killed, say, or their machine failed
};
// No helper takes over a run that has been silent for so long: the workers of a helper have left.
inline constexpr std::chrono::minutes kNoHelperAfter{4};
// Whether it has ended for good. A run that has saved its state or failed in a job that is queued again goes
// on. So does one that may have been killed on another host, which nobody can prove from here.
Outcome outcome_of(const RunSummary& summary);

// Whether `rekindle submit` has written a batch script into this folder.
bool is_submitted(const run::Layout& layout);

// How many folders below one runs are looked for.
inline constexpr int kFoldersDeep = 6;
// The run directories below a folder, itself included, by name; also those that are submitted only. Folders
// deeper than `depth` are not looked at, nor what is in a run directory, nor what looks like data: folders
// with thousands of files, or with a hundred images and the like, or packages of Python. Links in it are not
// followed.
std::vector<std::filesystem::path> find_runs(const std::filesystem::path& folder, int depth);

struct FoundRuns {
  std::vector<std::filesystem::path> runs;
  std::vector<std::filesystem::path> skipped;  // they look like data, and have more than samples
};
// The same for a folder that a person named, which is looked at whatever is in it.
FoundRuns find_all_runs(const std::filesystem::path& folder);

}  // namespace rekindle::view
