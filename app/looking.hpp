// Commands that look at a run again and again.
#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <optional>
#include <thread>
#include <utility>

#include "app/places.hpp"
#include "base/files.hpp"
#include "base/printable.hpp"
#include "base/result.hpp"
#include "run/layout.hpp"
#include "view/runs.hpp"

namespace rekindle::app {

inline constexpr std::chrono::milliseconds kLook{500};

// What to do about a run that was killed.
inline constexpr const char* kGoOn = "the command that began it goes on from the newest checkpoint";
// About a job that is not in Slurm's queue any more.
inline constexpr const char* kSubmitAgain = "submit it again to go on";

using LookClock = std::chrono::steady_clock;

// Until the next look, which may be slow on shared storage.
inline void rest(LookClock::time_point begin) {
  std::this_thread::sleep_for(std::max<LookClock::duration>(kLook, LookClock::now() - begin));
}

// A command that looks for days outlives a storage that is away for a minute.
class Patience {
 public:
  // False if the last result is an error, and so were all for two minutes. The first one is told.
  template <class T>
  bool allows(const Result<T>& result) {
    if (result) {
      since_.reset();
      return true;
    }
    if (!since_) {
      since_ = LookClock::now();
      std::cerr << "rekindle: warning: " << printable(result.error().line()) << ": trying again\n";
    }
    return LookClock::now() - *since_ < std::chrono::minutes(2);
  }

 private:
  std::optional<LookClock::time_point> since_;
};

// A run that ended without a report may be about to begin again: it is lost when it is that for half a
// minute.
class StaysLost {
 public:
  bool holds(bool lost) {
    if (!lost) since_.reset();
    if (lost && !since_) since_ = LookClock::now();
    return since_ && LookClock::now() - *since_ >= std::chrono::seconds(30);
  }

 private:
  std::optional<LookClock::time_point> since_;
};

// A run that was submitted has no more than its batch script until its job begins.
inline Status may_become_run(const std::filesystem::path& run_dir) {
  const run::Layout layout(run_dir, Trust::kForeign);
  // The folder of a job array has a batch script, too, and its runs are inside.
  return view::is_submitted(layout) && runs_inside(layout).empty() ? Status() : must_be_run(layout);
}

// The same for a command that is often called right after the one that begins the run: if nothing is there
// yet, it waits for half a minute.
inline Status await_run(const std::filesystem::path& run_dir) {
  constexpr std::chrono::seconds kPatience{30};
  const auto begin = LookClock::now();
  for (bool told = false;;) {
    const auto looked = LookClock::now();
    const run::Layout layout(run_dir, Trust::kForeign);
    const auto names = names_in(layout.root());
    // The first files of a run are there before it can be recognized: hidden ones, programs, logs, keys.
    const auto is_early = [](const std::string& name) {
      return name.starts_with('.') || name.starts_with("bin");
    };
    const bool is_made = (names && std::ranges::all_of(*names, is_early)) || path_exists(layout.logs()) ||
                         path_exists(layout.keys());
    Status is_run = may_become_run(run_dir);
    // What has begun goes on: between two looks there may be files that are not known as early ones.
    if (is_run || !(is_made || told) || looked - begin >= kPatience) return is_run;
    if (!std::exchange(told, true))
      std::cerr << "rekindle: waiting for a run in " << printable(run_dir.string()) << "\n";
    rest(looked);
  }
}

}  // namespace rekindle::app
