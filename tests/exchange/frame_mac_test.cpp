#include "exchange/frame_mac.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace rekindle::exchange {
namespace {

std::vector<std::byte> from_hex(std::string_view hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  return bytes;
}

template <std::size_t N>
std::array<std::byte, N> array_of(std::string_view hex) {
  const auto bytes = from_hex(hex);
  std::array<std::byte, N> array;
  std::copy_n(bytes.begin(), N, array.begin());
  return array;
}

// Project Wycheproof, chacha20_poly1305_test.json, tcId 3: a tag over additional data only.
const FrameKey kKey{array_of<32>("7a4cd759172e02eb204db2c3f5c746227df584fc1345196391dbb9577a250742"),
                    array_of<12>("a92ef0ac991dd516a3c6f689")};
const auto kText = from_hex("bd506764f2d2c410");
const auto kTag = array_of<16>("906fa6284b52f87b7359cbaa7563c709");

FrameTag tag_of(const FrameKey& key, std::span<const std::byte> text, int messages_before = 0) {
  FrameMac mac(key);
  for (int i = 0; i < messages_before; ++i) mac.finish();
  mac.add(text);
  return mac.finish();
}

TEST(FrameMac, IsChaCha20Poly1305OfAdditionalData) {
  EXPECT_EQ(tag_of(kKey, kText), kTag);
  FrameMac mac(kKey);
  mac.add(kText);
  EXPECT_TRUE(mac.finish_with(kTag));
}

TEST(FrameMac, PiecesOfAnySizeHaveTheTagOfTheWhole) {
  std::vector<std::byte> text(1000);
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<std::byte>(i * 7);
  const FrameTag whole = tag_of(kKey, text);
  for (const std::size_t piece : {1U, 3U, 15U, 16U, 17U, 999U}) {
    FrameMac mac(kKey);
    for (std::size_t at = 0; at < text.size(); at += piece)
      mac.add(std::span(text).subspan(at, std::min(piece, text.size() - at)));
    mac.add({});
    EXPECT_EQ(mac.finish(), whole) << piece;
  }
}

TEST(FrameMac, MessageNumberIsAddedToTheIvAsInTls13) {
  FrameKey next = kKey;
  next.iv.back() ^= std::byte{1};
  EXPECT_EQ(tag_of(kKey, kText, 1), tag_of(next, kText));
  next = kKey;
  next.iv.back() ^= std::byte{2};
  next.iv[10] ^= std::byte{1};
  EXPECT_EQ(tag_of(kKey, kText, 258), tag_of(next, kText));
}

TEST(FrameMac, EveryChangedBitOfTheTextGivesAnotherTag) {
  for (std::size_t bit = 0; bit < kText.size() * 8; ++bit) {
    auto changed = kText;
    changed[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    EXPECT_NE(tag_of(kKey, changed), kTag) << bit;
  }
}

TEST(FrameMac, EveryChangedBitOfTheTagIsRefused) {
  for (std::size_t bit = 0; bit < kTag.size() * 8; ++bit) {
    auto changed = kTag;
    changed[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    FrameMac mac(kKey);
    mac.add(kText);
    EXPECT_FALSE(mac.finish_with(changed)) << bit;
  }
}

TEST(FrameMac, OtherKeyIvNumberOrLengthGivesAnotherTag) {
  FrameKey other = kKey;
  other.key[0] ^= std::byte{1};
  EXPECT_NE(tag_of(other, kText), kTag);
  other = kKey;
  other.iv[0] ^= std::byte{1};
  EXPECT_NE(tag_of(other, kText), kTag);
  EXPECT_NE(tag_of(kKey, kText, 1), kTag);
  EXPECT_NE(tag_of(kKey, std::span(kText).first(7)), kTag);
  auto longer = kText;
  longer.push_back(std::byte{0});
  EXPECT_NE(tag_of(kKey, longer), kTag);
  EXPECT_NE(tag_of(kKey, {}), kTag);
}

}  // namespace
}  // namespace rekindle::exchange
