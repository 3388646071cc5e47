// The state of a run from the files of its directory, for helpers of the run: live, ended, or without a
// supervisor. No network is used: a run that looks silent here may still answer on its port.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "run/layout.hpp"
#include "run/terms.hpp"

namespace rekindle::run {

enum class Sign {
  kAlive,     // a coordinator holds the run, or its supervisor may start one; also if no file can be read
  kEnded,     // the newest term has ended in order, or there is no term
  kOrphaned,  // coordinator and supervisor are dead, and the run has not ended
  // The holder has written nothing for the limit, and is on another host or is not attended(). On this host
  // the limit is three times as long if the supervisor lives, because a person may have suspended both.
  kSilent,
};

// At least a supervisor's pause before it restarts its coordinator (60 s at most), and longer than storage
// shows old files. Claiming the term of a silent holder takes 30 s more.
inline constexpr std::chrono::seconds kSilentAfter{60};

class Watch {
 public:
  explicit Watch(Layout layout, std::chrono::milliseconds silent_after = kSilentAfter)
      : layout_(std::move(layout)), silent_after_(silent_after) {}

  // `now`: since boot. Call this every few seconds. After a longer pause the silence is counted from zero,
  // because this process may have been suspended.
  Sign look(std::chrono::milliseconds now);

  // As of the last call of look().
  const std::optional<Holder>& holder() const { return holder_; }

  // Whether look() has seen a sign of life in the last 10 s: the status is written every few seconds.
  bool heard_lately(std::chrono::milliseconds now) const {
    return last_sign_ && now - *last_sign_ < std::chrono::seconds(10);
  }

 private:
  bool has_written();

  Layout layout_;
  std::chrono::milliseconds silent_after_;
  std::optional<Holder> holder_;
  std::optional<std::chrono::milliseconds> looked_, last_sign_;
  std::string status_;  // the version of status.json at the last look
};

}  // namespace rekindle::run
