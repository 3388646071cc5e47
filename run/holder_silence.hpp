// How long the holder of a run has been silent, as one claimant saw it.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/planted.hpp"

namespace rekindle::run {

// Invariant: the silence is that of one term's holder. A claimant that has lost the race for a term starts
// again from zero with the winner: the winner may be so new that its answer could not be seen yet.
class HolderSilence {
 public:
  explicit HolderSilence(std::chrono::milliseconds patience) : patience_(patience) {}

  // The holder of `term` did not answer during a try that took `lasted`.
  void on_silence(std::uint64_t term, std::chrono::milliseconds lasted) {
    if (term != term_) silent_ = std::chrono::milliseconds(0);
    term_ = term;
    silent_ += lasted;
  }
  void on_answer() { silent_ = std::chrono::milliseconds(0); }

  // Whether the holder of `term` counts as gone: at once, without any patience.
  bool gone(std::uint64_t term) const {
    const bool is_of_this_holder = term == term_ || planted(Bug::kSilenceOfEarlierHolder);
    return (is_of_this_holder ? silent_ : std::chrono::milliseconds(0)) >= patience_;
  }

 private:
  std::chrono::milliseconds patience_;
  std::uint64_t term_ = 0;  // no holder's term is 0
  std::chrono::milliseconds silent_{0};
};

}  // namespace rekindle::run
