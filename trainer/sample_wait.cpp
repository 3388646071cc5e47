#include "trainer/sample_wait.hpp"

#include <utility>

#include "base/log.hpp"
#include "base/text.hpp"
#include "exchange/failure.hpp"
#include "protocol/trainer_control.hpp"

namespace rekindle::trainer {

namespace {
constexpr std::chrono::milliseconds kLook{50};  // between two checks for an abort or a stop
constexpr int kLooksBetweenTries = 4;
}  // namespace

Status SampleWait::try_again(const Error& error, Link& link, const Clock& clock) {
  if (!since_) {
    since_ = clock.now();
    log_warning(str(error.what, ": this trainer tries again for ", kSamplesPatience.count(), " s"));
  }
  for (int i = 0; i < kLooksBetweenTries; ++i) {
    if (link.aborted()) return forward_error(exchange::aborted_error());
    const bool stops = (link.flags() & protocol::kStopFlag) != 0;
    const auto tried = std::chrono::duration_cast<std::chrono::seconds>(clock.now() - *since_);
    if (stops || tried >= kSamplesPatience)
      return forward_error({error.code, str(error.what, " (tried for ", tried.count(), " s)"), error.hint,
                            ErrorKind::kChangedData});
    clock.sleep(kLook);
    link.progress();  // this trainer does not hang
  }
  return {};
}

}  // namespace rekindle::trainer
