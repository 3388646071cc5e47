// What a claimant decides from what it sees. Storage shows it the claims of other hosts late.
#include "run/claimant.hpp"

#include <gtest/gtest.h>

namespace rekindle::run {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPatience{30000}, kTry{500};

// The holder of `term` is silent for this many tries.
void stay_silent(Claimant& claimant, std::uint64_t term, int tries) {
  for (int i = 0; i < tries; ++i) claimant.on_silence(term, kTry);
}

TEST(Claimant, NoTermIsSeen_ClaimsTheFirst) { EXPECT_EQ(Claimant(kPatience).term_to_claim({}), 1U); }

TEST(Claimant, HolderIsGoneOrHasEnded_ClaimsTheNextTermAtOnce) {
  const Claimant claimant(kPatience);
  EXPECT_EQ(claimant.term_to_claim(SeenTerm{4, true, true}), 5U);
  EXPECT_EQ(claimant.term_to_claim(SeenTerm{4, false, true}), 5U);
  EXPECT_EQ(claimant.term_to_claim(SeenTerm{4, false, false}), std::nullopt);
}

TEST(Claimant, SilentHolder_IsReplacedAfterThePatienceAndNotEarlier) {
  Claimant claimant(kPatience);
  stay_silent(claimant, 4, 59);
  EXPECT_EQ(claimant.term_to_claim(SeenTerm{4}), std::nullopt);
  stay_silent(claimant, 4, 1);
  EXPECT_EQ(claimant.term_to_claim(SeenTerm{4}), 5U);
}

TEST(Claimant, AnAnswer_BeginsThePatienceAnew) {
  Claimant claimant(kPatience);
  stay_silent(claimant, 4, 59);
  EXPECT_FALSE(claimant.on_answer());
  stay_silent(claimant, 4, 59);
  EXPECT_EQ(claimant.term_to_claim(SeenTerm{4}), std::nullopt);
}

TEST(Claimant, SuspendedDuringATry_ThatTimeIsNoSilence) {
  Claimant claimant(kPatience);
  claimant.on_silence(4, std::chrono::hours(1));
  EXPECT_EQ(claimant.term_to_claim(SeenTerm{4}), std::nullopt);
}

TEST(Claimant, LostRace_LooksAgainAndIsPatientWithTheWinner) {
  Claimant claimant(kPatience);
  stay_silent(claimant, 4, 60);
  ASSERT_EQ(claimant.term_to_claim(SeenTerm{4}), 5U);
  EXPECT_FALSE(claimant.on_created(5, false));
  EXPECT_EQ(claimant.term_to_claim(SeenTerm{4}), 5U) << "the winner's claim cannot be seen yet";
  EXPECT_FALSE(claimant.on_created(5, false));
  EXPECT_EQ(claimant.term_to_claim(SeenTerm{5}), std::nullopt);
  stay_silent(claimant, 5, 59);
  EXPECT_EQ(claimant.term_to_claim(SeenTerm{5}), std::nullopt);
  stay_silent(claimant, 5, 1);
  EXPECT_EQ(claimant.term_to_claim(SeenTerm{5}), 6U);
  EXPECT_TRUE(claimant.on_created(6, true));
}

TEST(Claimant, WinnerIsNotVisibleYet_NoHolderIsAsked) {
  EXPECT_FALSE(Claimant::has_to_ask({}));
  EXPECT_FALSE(Claimant::has_to_ask(SeenTerm{4, true, true}));
  EXPECT_TRUE(Claimant::has_to_ask(SeenTerm{4}));
}

TEST(Claimant, HolderKeepsAnswering_TheClaimIsRefused) {
  Claimant claimant(kPatience);
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(claimant.on_answer());
  EXPECT_TRUE(claimant.on_answer());
}

}  // namespace
}  // namespace rekindle::run
