// Errors of an exchange, and the state after the first error.
#pragma once

#include <atomic>
#include <optional>
#include <string_view>

#include "base/result.hpp"

namespace rekindle::exchange {

Error aborted_error();
Error failed_error(int rank, std::string_view why);
Error altered_error(int rank);  // the rank's data do not match their authentication tag

inline tl::unexpected<Error> fail_rank(int rank, std::string_view why) {
  return forward_error(failed_error(rank, why));
}

// Remembers that an exchange has ended. After a failure the ranks no longer agree on the next call, so every
// later call fails too. If an abort makes a call fail, the error is the abort.
class CallStatus {
 public:
  void abort() noexcept { aborted_.store(true); }
  bool aborted() const noexcept { return aborted_.load(); }
  bool failed() const noexcept { return aborted() || broken_; }  // step loop only

  // Runs one call of the exchange.
  template <class Call>
  auto guard(Call call) -> decltype(call()) {
    if (aborted()) return forward_error(aborted_error());
    if (broken_) return forward_error(*broken_);
    auto result = call();
    if (!result) {
      broken_ = result.error();
      if (aborted()) return forward_error(aborted_error());
    }
    return result;
  }

 private:
  std::atomic<bool> aborted_{false};
  std::optional<Error> broken_;  // step loop only
};

}  // namespace rekindle::exchange
