#include "board/event_record.hpp"

#include <gtest/gtest.h>

#include <random>

namespace rekindle::board {
namespace {

// RFC 3720, appendix B.4, and the check value of the CRC catalogue.
TEST(EventRecord, Crc32c_IsThatOfTheRfc) {
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  std::string ascending;
  for (char byte = 0; byte < 32; ++byte) ascending += byte;
  EXPECT_EQ(crc32c(ascending), 0x46dd794eU);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
}

std::string hex(const std::string& bytes) {
  std::string digits;
  for (const char byte : bytes)
    for (const unsigned half : {static_cast<std::uint8_t>(byte) / 16U, byte & 15U})
      digits += "0123456789abcdef"[half];
  return digits;
}

// Written by tensorboard 2.21: RecordWriter(file).write(event_pb2.Event(...).SerializeToString()).
TEST(EventRecord, Records_HaveTheBytesOfTensorBoardsOwn) {
  EXPECT_EQ(hex(framed(encode_scalars({.wall_time = 1.5, .step = 300}, {{"loss", 0.25}, {"lr", 1}}))),
            "2600000000000000734fe30009000000000000f83f10ac022a180a0b0a046c6f7373150000803e0a090a026c72150000"
            "803fd0f05"
            "88e");
  EXPECT_EQ(hex(framed(encode_start({.wall_time = 1.5, .step = 300}))),
            "100000000000000095fbfe1809000000000000f83f10ac023a020801713b788a");
  EXPECT_EQ(hex(framed(encode_version(1.5))),
            "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c");
  EXPECT_EQ(hex(framed(encode_text({.wall_time = 1.5, .step = 7}, "events", "**lost**"))),
            "3700000000000000e7e8ca5909000000000000f83f10072a2a0a280a066576656e74734212080712041202080142082a"
            "2a6c6f737"
            "42a2a4a0a0a060a04746578742002f2cc2a36");
}

TEST(EventRecord, WhatIsWritten_IsRead) {
  const auto scalars = decode(encode_scalars({.wall_time = 1.5, .step = 300}, {{"loss", 0.25}, {"lr", 1}}));
  ASSERT_TRUE(scalars);
  EXPECT_EQ(scalars->step, 300U);
  EXPECT_EQ(scalars->first_tag, "loss");
  EXPECT_FALSE(scalars->start);
  const auto start = decode(encode_start({.wall_time = 1.5, .step = std::uint64_t{INT64_MAX}}));
  ASSERT_TRUE(start);
  EXPECT_EQ(start->step, std::uint64_t{INT64_MAX});
  EXPECT_TRUE(start->start);
  const auto text = decode(encode_text({.wall_time = 1.5, .step = 0}, "events", "**lost**"));
  ASSERT_TRUE(text);
  EXPECT_EQ(text->first_tag, "events");
  EXPECT_TRUE(decode(encode_version(1)));
}

TEST(EventRecord, ADamagedEvent_IsReadOrRefused) {
  std::mt19937 random(1);
  const std::string event = encode_text({.wall_time = 1, .step = 1}, "events", "text");
  for (std::size_t bytes = 0; bytes < event.size(); ++bytes)
    static_cast<void>(decode(event.substr(0, bytes)));
  int refused = 0;
  for (int i = 0; i < 10000; ++i) {
    std::string damaged = event;
    damaged[random() % damaged.size()] = static_cast<char>(random());
    refused += decode(damaged) ? 0 : 1;
  }
  EXPECT_GT(refused, 100);
}

TEST(EventRecord, AHeader_SaysTheLengthOrIsRefused) {
  std::string record = framed("abc");
  EXPECT_EQ(record.size(), kHeaderBytes + 3 + kFooterBytes);
  EXPECT_EQ(length_in(record), 3U);
  EXPECT_EQ(length_in(record.substr(0, kHeaderBytes - 1)), std::nullopt);
  record[0] = 4;
  EXPECT_EQ(length_in(record), std::nullopt);
}

}  // namespace
}  // namespace rekindle::board
