#include "trainer/state_hashes.hpp"

#include <gtest/gtest.h>

#include "arena_state.hpp"

namespace rekindle::trainer {
namespace {

using StateHashesTest = ArenaStateTest;

TEST_F(StateHashesTest, AtOnce_AreThoseOfTheState) {
  for (const bool during_update : {true, false}) {
    StateHashes hashes(state_, during_update ? arenas() : Arenas());
    EXPECT_EQ(hashes.during_update(), during_update);
    EXPECT_FALSE(hashes.complete());
    EXPECT_EQ(hashes.digest(5), checkpoint::state_digest(5, state_));
    EXPECT_TRUE(hashes.complete());
    EXPECT_EQ(hashes.all(), checkpoint::hash_chunks(state_));
  }
}

// Every element changes just before it is reported as final.
TEST_F(StateHashesTest, OnTheWay_AreThoseOfTheNewState) {
  StateHashes hashes(state_, arenas());
  for (const std::size_t piece : {std::size_t{16}, std::size_t{65536}, std::size_t{300000}, kArenaFloats}) {
    hashes.all();
    hashes.forget();
    for (std::size_t first = 0; first < kArenaFloats; first += piece) {
      const std::size_t count = std::min(piece, kArenaFloats - first);
      for (auto& arena : arenas_) {
        for (std::size_t i = first; i < first + count; ++i) arena[i] = -arena[i] + 1;
      }
      hashes.updated(first * sizeof(float), count * sizeof(float));
    }
    buffer_[3] += 1;
    EXPECT_EQ(hashes.all(), checkpoint::hash_chunks(state_)) << piece;
  }
}

TEST_F(StateHashesTest, PiecesOutOfOrder_AreHashedLater) {
  StateHashes hashes(state_, arenas());
  const std::size_t half = kArenaFloats / 2;
  for (const std::size_t first : {half, std::size_t{0}}) {
    for (auto& arena : arenas_) {
      for (std::size_t i = first; i < first + half; ++i) arena[i] += 1;
    }
    hashes.updated(first * sizeof(float), half * sizeof(float));
  }
  EXPECT_EQ(hashes.all(), checkpoint::hash_chunks(state_));
}

}  // namespace
}  // namespace rekindle::trainer
