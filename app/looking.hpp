// Commands that look at a run again and again.
#pragma once

#include <chrono>
#include <filesystem>
#include <iostream>
#include <optional>
#include <thread>

#include "app/places.hpp"
#include "base/files.hpp"
#include "base/printable.hpp"
#include "base/result.hpp"
#include "run/layout.hpp"

namespace rekindle::app {

inline constexpr std::chrono::milliseconds kLook{500};

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

// A run that was submitted has no more than its batch script until its job begins.
inline Status may_become_run(const std::filesystem::path& run_dir) {
  const run::Layout layout(run_dir, Trust::kForeign);
  return is_file(layout.job_script()) ? Status() : must_be_run(layout);
}

}  // namespace rekindle::app
