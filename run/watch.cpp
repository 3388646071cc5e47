#include "run/watch.hpp"

#include <utility>

#include "base/file_version.hpp"

namespace rekindle::run {

namespace {
constexpr std::chrono::seconds kLongestPause{10};  // between two calls of look()
constexpr int kSuspendedFactor = 3;
}  // namespace

// status.json is replaced about every second, in the largest runs every 5 s.
bool Watch::has_written() {
  const std::string status = file_version(layout_.status());
  return !status.empty() && std::exchange(status_, status) != status;
}

Sign Watch::look(std::chrono::milliseconds now) {
  const bool paused = !looked_ || now - *looked_ > kLongestPause;
  looked_ = now;
  const auto newest = newest_term(layout_);
  if (!newest) {
    last_sign_ = now;  // the storage is away, so silence means nothing
    return Sign::kAlive;
  }
  const bool changed = !holder_ || !*newest || (*newest)->term != holder_->term;
  holder_ = *newest;
  if (!holder_ || (holder_->ended && !holder_->orphaned)) return Sign::kEnded;
  // If two hosts have the same name, a later boot of one would wrongly prove the other dead.
  const bool dead = visible(*holder_) && looks_gone(*holder_) && supervisor_gone(*holder_);
  if (holder_->orphaned || dead) return Sign::kOrphaned;
  if (has_written() || changed || paused || attended(*holder_) || !last_sign_) last_sign_ = now;
  const auto limit =
      visible(*holder_) && !supervisor_gone(*holder_) ? kSuspendedFactor * silent_after_ : silent_after_;
  return now - *last_sign_ < limit ? Sign::kAlive : Sign::kSilent;
}

}  // namespace rekindle::run
