// The commands that show runs: their logs, their course, which ones there are.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "app/watchers.hpp"
#include "base/result.hpp"

namespace rekindle::app {

struct LogsOptions {
  bool follow = false;               // go on until the process is ended
  std::optional<std::size_t> lines;  // only the last ones
  std::string level = "debug";       // this one and higher
};
Status show_logs(const std::filesystem::path& run_dir, const LogsOptions& options);

// A line for each run below a folder, or JSON.
Status list_runs(const std::filesystem::path& folder, bool json);

struct PlotOptions {
  std::string metric = "loss";
  bool logarithmic = false;
};
Status plot_run(const std::filesystem::path& run_dir, const PlotOptions& options);

struct WaitOptions {
  std::optional<std::uint64_t> step;     // nullopt: the end of the run
  std::chrono::milliseconds timeout{0};  // 0: none
};
// Returns when the run has come so far, over all its attempts. Errors: it has failed; the time is over
// (ExitCode::kGaveUp).
Status wait_for_run(const std::filesystem::path& run_dir, const WaitOptions& options);

struct WatchOptions {
  // Of a run that watches itself: tells the events after so many, prints nothing, and at end_signal() ends
  // after the events that are there.
  std::optional<std::uint64_t> of_a_run_after;
  std::string on_event;              // a command for each event; empty: none
  std::uint32_t event_limit_s = 60;  // of this command; then it is killed
  bool from_start = false;           // also what the records say of before
  bool json = false;
};
// Tells what happens to a run, until it has ended. Errors: it has failed.
Status watch_run(const std::filesystem::path& run_dir, const WatchOptions& options);

// Serves the page of a run, or of all runs below a folder, until the process is ended.
Status serve_board(const std::filesystem::path& folder, const WatcherOptions& options);
// The page of a run as one file.
Status write_page(const std::filesystem::path& run_dir, const std::filesystem::path& file);
// Prints the link to the page that a run serves now. Only its owner can read the secret in it.
Status print_page_link(const std::filesystem::path& run_dir);

}  // namespace rekindle::app
