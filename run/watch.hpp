// What the files of a run directory tell those who help a run: does it go on, is it over, or has it lost its
// supervisor? It sees no network: what looks silent here may still answer on its port.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "run/layout.hpp"
#include "run/terms.hpp"

namespace rekindle::run {

enum class Sign {
  kAlive,     // a coordinator holds the run, or its supervisor may start one; also: nothing can be read
  kEnded,     // the newest term has ended in good order, or there is none
  kOrphaned,  // coordinator and supervisor are dead, and the run has not ended
  kSilent,    // the holder, on another host, has written nothing for the limit
};

// Longer than a supervisor's pause before it starts its coordinator again (60 s at most), and than storage
// shows old files. To claim the term of a silent holder takes 30 s more.
inline constexpr std::chrono::seconds kSilentAfter{60};

class Watch {
 public:
  explicit Watch(Layout layout, std::chrono::milliseconds silent_after = kSilentAfter)
      : layout_(std::move(layout)), silent_after_(silent_after) {}

  // `now`: since boot. To be called every few seconds; after a longer pause silence is counted anew, for this
  // process may have been suspended.
  Sign look(std::chrono::milliseconds now);

  // As of the last look.
  const std::optional<Holder>& holder() const { return holder_; }

 private:
  bool has_written();

  Layout layout_;
  std::chrono::milliseconds silent_after_;
  std::optional<Holder> holder_;
  std::optional<std::chrono::milliseconds> looked_, heard_;
  std::string status_;  // which file it was
};

}  // namespace rekindle::run
