#include "trainer/part_check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "arena_state.hpp"

namespace rekindle::trainer {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kNoPatience{0}, kEndless{1000000000};

class PartCheckTest : public ArenaStateTest {
 protected:
  static constexpr std::size_t kParts = 3;

  std::vector<checkpoint::Slice> part(int part) const {
    return checkpoint::part_of(checkpoint::spec_of(state_), kParts, part);
  }
  PartCheck check(int which) const {
    return {state_, part(which), checkpoint::hash_chunks(state_), arenas()};
  }
  // Announces a piece and then changes the piece, like an update.
  void update(PartCheck& check, std::size_t first, std::size_t floats) {
    check.before_change(first * sizeof(float), floats * sizeof(float));
    for (auto& arena : arenas_) {
      for (std::size_t i = first; i < first + floats; ++i) arena[i] = -arena[i] + 1;
    }
  }
};

TEST_F(PartCheckTest, EveryPieceIsLookedAtBeforeItChanges) {
  for (const std::size_t piece : {std::size_t{16}, std::size_t{65536}, std::size_t{300000}, kArenaFloats}) {
    for (int which = 0; which < static_cast<int>(kParts); ++which) {
      PartCheck part = check(which);
      EXPECT_FALSE(part.done());
      for (std::size_t first = 0; first < kArenaFloats; first += piece)
        update(part, first, std::min(piece, kArenaFloats - first));
      EXPECT_TRUE(part.done());
      EXPECT_TRUE(part.unchanged(kEndless)) << piece << ' ' << which;
    }
  }
}

TEST_F(PartCheckTest, PiecesInAnyOrder_AreLookedAtBeforeTheyChange) {
  PartCheck part = check(0);
  const std::size_t quarter = kArenaFloats / 4;
  for (const std::size_t i : {2, 0, 3, 1}) update(part, i * quarter, quarter);
  EXPECT_TRUE(part.unchanged(kEndless));
}

TEST_F(PartCheckTest, AByteThatHasChanged_IsFoundInItsPartAlone) {
  const auto flip = [](std::span<std::byte> bytes) { bytes.back() ^= std::byte{16}; };
  for (int changed = 0; changed < static_cast<int>(kParts); ++changed) {
    for (const checkpoint::Slice& slice : part(changed)) {
      for (int which = 0; which < static_cast<int>(kParts); ++which) {
        PartCheck part = check(which);
        flip(checkpoint::bytes_of(state_, slice));
        EXPECT_EQ(part.unchanged(kNoPatience), which != changed);
        flip(checkpoint::bytes_of(state_, slice));
      }
    }
  }
}

TEST_F(PartCheckTest, AWaitingThread_IsWokenByTheLast) {
  PartCheck part = check(1);
  bool unchanged = false;
  std::thread waits([&] { unchanged = part.unchanged(kEndless); });
  part.before_change(0, 4096);
  part.check_rest();
  waits.join();
  EXPECT_TRUE(unchanged);
}

TEST_F(PartCheckTest, WithoutAnUpdate_AWaitingThreadChecksByItself) {
  PartCheck part = check(1);
  bool unchanged = false;
  std::thread waits([&] { unchanged = part.unchanged(kEndless); });
  part.expect_no_update();
  waits.join();
  EXPECT_TRUE(unchanged && part.done());
}

TEST_F(PartCheckTest, AnUpdateThatComesMeanwhile_GoesOnWhereTheOtherIs) {
  for (int round = 0; round < 20; ++round) {
    PartCheck part = check(0);
    bool unchanged = false;
    std::thread looks([&] { unchanged = part.unchanged(kNoPatience); });
    for (std::size_t first = 0; first < kArenaFloats; first += 65536) update(part, first, 65536);
    looks.join();
    EXPECT_TRUE(unchanged);
  }
}

// Comparing each chunk with each slice would take minutes.
TEST(PartCheckOfMany, AStateOfManyTensors_IsDividedInOneWalk) {
  constexpr std::size_t kTensors = 200000;
  std::vector<float> memory(kTensors, 1.0F);
  checkpoint::State state;
  for (std::size_t i = 0; i < kTensors; ++i) {
    checkpoint::TensorSpec spec;
    spec.name = std::to_string(i);
    spec.shape = {1};
    state.push_back({spec, std::as_writable_bytes(std::span(memory).subspan(i, 1))});
  }
  const checkpoint::ChunkHashes hashes = checkpoint::hash_chunks(state);
  const Arenas arenas{std::as_bytes(std::span(memory))};
  PartCheck first(state, checkpoint::part_of(checkpoint::spec_of(state), 2, 0), hashes, arenas);
  PartCheck second(state, checkpoint::part_of(checkpoint::spec_of(state), 2, 1), hashes, arenas);
  memory.back() = 2;
  EXPECT_TRUE(first.unchanged(kNoPatience));
  EXPECT_FALSE(second.unchanged(kNoPatience));
}

TEST_F(PartCheckTest, APartWithoutChunks_IsDone) {
  PartCheck part(state_, {}, checkpoint::hash_chunks(state_), arenas());
  EXPECT_TRUE(part.done());
  EXPECT_TRUE(part.unchanged(kEndless));
}

}  // namespace
}  // namespace rekindle::trainer
