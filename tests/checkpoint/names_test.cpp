#include <algorithm>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/names.hpp"
#include "fixture.hpp"

namespace rekindle::checkpoint {
namespace {

TEST(Names, CheckpointId_ReadsBackWhatItWrites) {
  const CheckpointId id{123, 1, 2};
  EXPECT_EQ(id.directory_name(), "step-0000000123.t1.g2");
  for (const CheckpointId& each : {id, CheckpointId{}, CheckpointId{99999999999ULL, 12, ~0ULL}}) {
    EXPECT_EQ(CheckpointId::parse(each.directory_name()), each);
  }
}

TEST(Names, OtherSpellings_AreNoCheckpoints) {
  for (const char* name :
       {"", "step-", "step-123.t1.g2", "step-0000000123.t01.g2", "step-0000000123.t1.g2.damaged",
        "step-0000000123.t1", "step-0000000123.t1.g", "step--000000123.t1.g2", "step-0000000123.t1.g+2",
        "step-0000000123.t1.g99999999999999999999", " step-0000000123.t1.g2", "step-00000000123.t1.g2"}) {
    EXPECT_FALSE(CheckpointId::parse(name)) << name;
  }
}

TEST(Names, ATensorsName_HasNoControlCharacters) {
  for (const char* name : {"a", "features.0.weight", "mit Leerzeichen", "\xc3\xa4", "\xc2\xa0", ".a", "a~"})
    EXPECT_TRUE(check_tensor_name(name)) << name;
  for (const std::string name : {"", ".", "a/b", "a\nssh-ed25519 AAAA", "a\r", "\t", "\x1b[32mwhole", "a\x7f",
                                 "\xc2\x9b"
                                 "31m",
                                 "\xc2\x85", "\xff"}) {
    const Status refused = check_tensor_name(name);
    ASSERT_FALSE(refused) << name;
    EXPECT_TRUE(std::ranges::none_of(refused.error().what, [](char c) { return c >= 0 && c < ' '; }))
        << refused.error().what;
  }
  EXPECT_FALSE(check_tensor_name(std::string("a\0b", 3)));
}

TEST(Parts, All_TileEveryTensorOnChunksAndAreNearlyEqual) {
  const StateSpec spec = mixed_spec();
  std::size_t largest_chunk = kChunkBytes;
  for (const TensorSpec& tensor : spec) largest_chunk = std::max(largest_chunk, tensor.row_bytes());
  for (int shards : {1, 2, 3, 5, 17, 1000}) {
    std::vector<std::int64_t> next(spec.size(), 0);
    for (int shard = 0; shard < shards; ++shard) {
      std::size_t bytes = 0;
      for (const Slice& slice : part_of(spec, shards, shard)) {
        EXPECT_EQ(slice.first_row, next[slice.tensor]);
        EXPECT_EQ(slice.first_row % rows_in_chunk(spec[slice.tensor]), 0);
        EXPECT_GT(slice.rows, 0);
        next[slice.tensor] += slice.rows;
        bytes += spec[slice.tensor].row_bytes() * static_cast<std::size_t>(slice.rows);
      }
      EXPECT_LE(bytes, total_bytes(spec) / static_cast<std::size_t>(shards) + largest_chunk);
    }
    for (std::size_t i = 0; i < spec.size(); ++i) {
      EXPECT_EQ(next[i], spec[i].bytes() == 0 ? 0 : spec[i].rows()) << spec[i].name << " of " << shards;
    }
  }
}

TEST(Parts, OfHugeStates_DoNotOverflow) {
  const StateSpec spec = {
      {"w", Dtype::kUint8, {std::int64_t{1} << 40, std::int64_t{1} << 21}, Role::kParameter}};
  std::int64_t rows = 0;
  for (int shard = 0; shard < 1000; ++shard) {
    const auto slices = part_of(spec, 1000, shard);
    ASSERT_EQ(slices.size(), 1U);
    EXPECT_EQ(slices[0].first_row, rows);
    rows += slices[0].rows;
  }
  EXPECT_EQ(rows, std::int64_t{1} << 40);
}

}  // namespace
}  // namespace rekindle::checkpoint
