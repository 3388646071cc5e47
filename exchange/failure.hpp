// How an exchange's errors say what kind they are: by the beginning of Error::what, which is written and read
// in failure.cpp and nowhere else. Callers ask is_aborted() and failed_rank() of exchange.hpp.
#pragma once

#include <atomic>
#include <optional>
#include <string_view>

#include "base/result.hpp"

namespace rekindle::exchange {

Error aborted_error();
Error failed_error(int rank, std::string_view why);
Error altered_error(int rank);  // data from it do not match their authentication tag

inline tl::unexpected<Error> fail_rank(int rank, std::string_view why) {
  return forward_error(failed_error(rank, why));
}

// Remembers that an exchange is over. After a failure the ranks no longer agree about what comes next, so
// every later call fails too; an abort outranks whatever it makes fail.
class Fate {
 public:
  void abort() noexcept { aborted_.store(true); }
  bool aborted() const noexcept { return aborted_.load(); }

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
