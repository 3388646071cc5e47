#include "trainer/state_hashes.hpp"

#include <gtest/gtest.h>

#include "base/random.hpp"

namespace rekindle::trainer {
namespace {

using checkpoint::Dtype;
using checkpoint::Role;

// Two arenas of the same tensors, with padding between these, and a buffer of its own.
class StateHashesTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kArenaFloats = 1 << 20;
  StateHashesTest() : arenas_(2, std::vector<float>(kArenaFloats)), buffer_(16) {
    Rng rng(stream_key(3, Draws::kInit));
    for (auto& arena : arenas_) {
      for (float& value : arena) value = static_cast<float>(rng.next());
    }
    for (std::size_t a = 0; a < 2; ++a) {
      add("small", {7, 3}, arenas_[a].data());
      add("large", {700, 1000}, arenas_[a].data() + 32);
      add("row", {1, 300000}, arenas_[a].data() + 700032);
    }
    state_.push_back(
        {{"buffer", Dtype::kFloat32, {16}, Role::kBuffer}, std::as_writable_bytes(std::span(buffer_))});
  }
  void add(const char* name, std::vector<std::int64_t> shape, float* at) {
    checkpoint::TensorSpec spec{name, Dtype::kFloat32, std::move(shape), Role::kParameter};
    const std::size_t bytes = spec.bytes();
    state_.push_back({std::move(spec), {reinterpret_cast<std::byte*>(at), bytes}});
  }
  std::vector<std::span<const std::byte>> arenas() const {
    return {std::as_bytes(std::span(arenas_[0])), std::as_bytes(std::span(arenas_[1]))};
  }

  std::vector<std::vector<float>> arenas_;
  std::vector<float> buffer_;
  checkpoint::State state_;
};

TEST_F(StateHashesTest, AtOnce_AreThoseOfTheState) {
  for (const bool on_the_way : {true, false}) {
    StateHashes hashes(state_, on_the_way ? arenas() : std::vector<std::span<const std::byte>>());
    EXPECT_EQ(hashes.on_the_way(), on_the_way);
    EXPECT_FALSE(hashes.complete());
    EXPECT_EQ(hashes.digest(5), checkpoint::state_digest(5, state_));
    EXPECT_TRUE(hashes.complete());
    EXPECT_EQ(hashes.all(), checkpoint::hash_chunks(state_));
  }
}

// Every element changes just before it is said to be as it will be.
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
