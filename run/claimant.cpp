#include "run/claimant.hpp"

#include <algorithm>

#include "base/planted.hpp"

namespace rekindle::run {
namespace {

// At most this much of one try counts as silence, even if the storage blocked for longer. Time in which the
// claimant itself was suspended is no silence of the holder either.
constexpr std::chrono::milliseconds kLongestTry{3000};
constexpr int kAnswersWhileDying = 6;

}  // namespace

std::optional<std::uint64_t> Claimant::term_to_claim(const std::optional<SeenTerm>& newest) const {
  if (planted(Bug::kClaimAfterLostRace) && lost_ > 0) return lost_ + 1;
  if (!newest) return 1;
  const bool gone = newest->ended || newest->provably_gone || silence_.gone(newest->term);
  return gone ? std::optional(newest->term + 1) : std::nullopt;
}

bool Claimant::on_created(std::uint64_t term, bool created) {
  if (!created) lost_ = term;
  return created || planted(Bug::kLostRaceCounts);
}

bool Claimant::on_answer() {
  silence_.on_answer();
  return ++answers_ >= kAnswersWhileDying;
}

void Claimant::on_silence(std::uint64_t term, std::chrono::milliseconds lasted) {
  silence_.on_silence(term, std::min(lasted, kLongestTry));
}

}  // namespace rekindle::run
