#include "base/clock.hpp"

#include <gtest/gtest.h>

namespace rekindle {
namespace {

TEST(Clock, TimesAsText_ComeBack) {
  EXPECT_EQ(utc_text(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(utc_text(1700000000123), "2023-11-14T22:13:20.123Z");
  for (const std::int64_t time : {std::int64_t{0}, std::int64_t{999}, std::int64_t{1700000000007}})
    EXPECT_EQ(parse_utc(utc_text(time)), time);
  EXPECT_EQ(parse_utc("2023-11-14T22:13:20Z"), 1700000000000);
}

TEST(Clock, WhatIsNoTime_IsNone) {
  for (const char* text :
       {"", "2023", "2023-11-14T22:13:20", "2023-11-14T22:13:20.12Z", "2023-11-14T22:13:20.1234Z",
        "2023-11-14T22:13:20.123", "2023-11-14T22:13:20.123Zx", "1912-11-14T22:13:20Z",
        "2023-11-14T22:13:20.", "2023-11-14T22:13:20.xyzZ"})
    EXPECT_FALSE(parse_utc(text)) << text;
}

TEST(Clock, AgeOfATime_WithOrWithoutMilliseconds) {
  EXPECT_LE(age_of(utc_now()).value().count(), 2);
  EXPECT_LE(age_of(utc_now_ms()).value().count(), 2);
  EXPECT_EQ(age_of("2999-01-01T00:00:00Z").value().count(), 0);
}

}  // namespace
}  // namespace rekindle
