// Text for a terminal.
#include "base/printable.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "base/utf8.hpp"

namespace rekindle {
namespace {

TEST(Printable, WhatATerminalTakesForMoreThanText_IsEscaped) {
  EXPECT_EQ(printable("plain text, \\ and ü €"), "plain text, \\ and ü €");
  EXPECT_EQ(printable("a\nb\rc\td"), "a\\nb\\rc\\td");
  EXPECT_EQ(printable(std::string("\0\x1b\x7f", 3)), "\\x00\\x1b\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\u{009b}31m");  // a control sequence as a single character
  EXPECT_EQ(printable("\xe2\x80\xae"
                      "evil"),
            "\\u{202e}evil");  // the right-to-left override
  for (const auto& [text, shown] : {std::pair("\u00ad", "\\u{00ad}"),
                                    {"\u061c", "\\u{061c}"},
                                    {"\u180e", "\\u{180e}"},
                                    {"\u200b", "\\u{200b}"},
                                    {"\u200d", "\\u{200d}"},
                                    {"\u200e", "\\u{200e}"},
                                    {"\u200f", "\\u{200f}"},
                                    {"\u2028", "\\u{2028}"},
                                    {"\u2029", "\\u{2029}"},
                                    {"\u202a", "\\u{202a}"},
                                    {"\u2060", "\\u{2060}"},
                                    {"\u2066", "\\u{2066}"},
                                    {"\u2069", "\\u{2069}"},
                                    {"\ufeff", "\\u{feff}"},
                                    {"\ufff9", "\\u{fff9}"},
                                    {"\U000e0041", "\\u{e0041}"}})
    EXPECT_EQ(printable(text), shown);
  EXPECT_EQ(printable("\u0600 \u2010 \u2027 \u202f \u2070 \U0001f600"),
            "\u0600 \u2010 \u2027 \u202f \u2070 \U0001f600");
  EXPECT_EQ(printable("\xff\xc0\x80\xed\xa0\x80"), "\\xff\\xc0\\x80\\xed\\xa0\\x80");  // not UTF-8
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");                                      // truncated UTF-8
}

TEST(Utf8, TextIsPaddedByCharacters) {
  EXPECT_EQ(count_characters(""), 0U);
  EXPECT_EQ(count_characters("k\u00e4se \u20ac"), 6U);
  EXPECT_EQ(padded("k\u00e4se", 6), "k\u00e4se  ");
  EXPECT_EQ(padded("kaese", 6), "kaese ");
  EXPECT_EQ(padded("longer", 3), "longer");
}

}  // namespace
}  // namespace rekindle
