#include "device/kernels.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "optim/average.hpp"

namespace rekindle::device {
namespace {

TEST(Kernels, Pieces_AreScaledOrKeepEveryBit) {
  // A number of another type that a float would not keep: a signalling NaN.
  const float other = std::bit_cast<float>(0x7fa00001U);
  const std::vector<float> from = {1, 2, 3, other, 5, 6};
  std::vector<float> to(6, -1);
  Pieces pieces;
  pieces.factor = 0.5F;
  pieces.piece[0] = {to.data(), from.data(), 2};
  pieces.piece[1] = {to.data() + 3, from.data() + 3, 2, false};
  pieces.piece[2] = {to.data() + 5, from.data() + 5, 0};
  pieces.pieces = 3;
  run_on_host(pieces);
  EXPECT_EQ(to[0], 0.5F);
  EXPECT_EQ(to[1], 1);
  EXPECT_EQ(to[2], -1) << "between pieces";
  EXPECT_EQ(std::bit_cast<std::uint32_t>(to[3]), 0x7fa00001U);
  EXPECT_EQ(to[4], 5);
  EXPECT_EQ(to[5], -1);
}

TEST(Kernels, MoveTowards_HasTheBitsOfTheAverage) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> from = {1, -kInfinity, kInfinity, 3, 0};
  std::vector<float> to = {2, -kInfinity, kInfinity, -5, -0.0F}, expected = to;
  run_on_host(MoveTowards{to.data(), from.data(), static_cast<float>(1 - 0.9), to.size()});
  optim::average(0.9, expected, from);
  EXPECT_EQ(std::memcmp(to.data(), expected.data(), to.size() * sizeof(float)), 0);
  EXPECT_EQ(to[1], -kInfinity);
}

TEST(Kernels, DigestInto_DoesNotDependOnThePieces) {
  std::vector<std::uint32_t> words(1001);
  for (std::uint32_t i = 0; i < words.size(); ++i) words[i] = i * i;
  const auto* const bytes = reinterpret_cast<const std::byte*>(words.data());
  const auto digest = [&](std::size_t all, std::size_t cut) {
    std::array<std::uint64_t, 2> sums{};
    run_on_host(DigestInto{sums.data(), bytes, cut, 0});
    run_on_host(DigestInto{sums.data(), bytes + cut, all - cut, cut / 4});
    return sums;
  };
  EXPECT_EQ(digest(4004, 0), digest(4004, 2000));
  EXPECT_NE(digest(4003, 0), digest(4002, 0)) << "the last word is short";
  EXPECT_EQ(digest(4003, 0), digest(4003, 4000));
}

}  // namespace
}  // namespace rekindle::device
