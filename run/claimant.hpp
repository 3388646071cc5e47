// Who may claim the next term: what one claimant decides from what it sees. Storage may show the claims of
// other hosts late, but creates each claim only once.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "run/holder_silence.hpp"

namespace rekindle::run {

// The newest term that a claimant sees.
struct SeenTerm {
  std::uint64_t term = 0;
  bool ended = false;
  bool provably_gone = false;  // the holder is gone, whether it answers or not
};

// The claimant's tries, one after the other. A try is:
//   1. look at the newest term. If term_to_claim() returns a term, create its claim exclusively, and report
//      the result to on_created(), which returns whether this claimant has the term.
//   2. without a term: look again. If has_to_ask(), ask the holder for a sign of life, and report the result
//      to on_answer() or on_silence().
class Claimant {
 public:
  explicit Claimant(std::chrono::milliseconds patience) : silence_(patience) {}

  // The term to create, or nullopt if the newest term's holder may be alive.
  std::optional<std::uint64_t> term_to_claim(const std::optional<SeenTerm>& newest) const;
  bool on_created(std::uint64_t term, bool created);

  // Whether the newest term's holder has to be asked. After a lost race, the winner's term may not be visible
  // yet; until then the claimant sees no term, or only a term that has ended.
  static bool has_to_ask(const std::optional<SeenTerm>& newest) { return newest && !newest->ended; }
  // The holder is alive. Returns whether the claim is refused: a holder that is being killed with its job
  // answers a few times more.
  bool on_answer();
  // The holder of `term` was silent during a try that took `lasted`.
  void on_silence(std::uint64_t term, std::chrono::milliseconds lasted);

 private:
  HolderSilence silence_;
  int answers_ = 0;
  std::uint64_t lost_ = 0;  // the last term that another claimant created first
};

}  // namespace rekindle::run
