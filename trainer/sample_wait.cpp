#include "trainer/sample_wait.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "base/text.hpp"
#include "exchange/failure.hpp"
#include "protocol/trainer_control.hpp"

namespace rekindle::trainer {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kLook{50};  // between two checks for an abort or a stop
constexpr int kLooksBetweenTries = 4;
constexpr seconds kUnusual{30};   // a wait that is told, though nothing has failed
constexpr seconds kStopWaits{5};  // a stop waits so long for samples that are only late
constexpr seconds kLongestTry{60};
// The next generation waits for at least so long (or half the limit): until all members that cannot read have
// said so, and nobody is left out for storage that is away for all.
constexpr seconds kGrace{60};

std::int64_t to_seconds(milliseconds time) { return std::chrono::duration_cast<seconds>(time).count(); }

}  // namespace

Status SampleWait::try_again(const Error& error, std::uint64_t step, Link& link, const Clock& clock) {
  const bool late = error.kind == ErrorKind::kNotYet;
  count(late, clock);
  if (!said_ && (!late || waited_ >= std::min<milliseconds>(kUnusual, limit_ / 2))) {
    said_ = true;
    log_warning(str(error.what, ": this trainer tries again for ", to_seconds(limit_), " s"));
  }
  if (said_) link.set_phase(protocol::TrainerPhase::kReading, step);
  for (int i = 0; i < (late ? 1 : kLooksBetweenTries); ++i) {
    REKINDLE_CHECK(look(error, link));
    if (!late) clock.sleep(kLook);
    link.progress();  // this trainer does not hang
  }
  return {};
}

// A process that was suspended has not waited all the time.
void SampleWait::count(bool late, const Clock& clock) {
  const Clock::TimePoint now = clock.now();
  const milliseconds first = late ? kSampleLook : seconds(0);
  const milliseconds most = std::min<milliseconds>(kLongestTry, limit_ / 4);
  waited_ += last_ ? std::min(std::chrono::round<milliseconds>(now - *last_), most) : first;
  last_ = now;
}

Status SampleWait::look(const Error& error, Link& link) {
  if (link.aborted()) {
    leave();
    return forward_error(exchange::aborted_error());
  }
  const bool only_late = error.kind == ErrorKind::kNotYet && waited_ < kStopWaits;
  const bool stops = (link.flags() & protocol::kStopFlag) != 0 && !only_late;
  if (!stops && waited_ < limit_) return {};
  const milliseconds waited = waited_;
  leave();
  return forward_error({error.code, str(error.what, " (tried for ", to_seconds(waited), " s)"), error.hint,
                        ErrorKind::kUnreadable});
}

void SampleWait::leave() {
  last_.reset();
  waited_ = std::min(waited_, limit_ - std::min<milliseconds>(kGrace, limit_ / 2));
}

bool SampleWait::succeeded() {
  waited_ = milliseconds(0);
  last_.reset();
  return std::exchange(said_, false);
}

}  // namespace rekindle::trainer
