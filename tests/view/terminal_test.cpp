#include "view/terminal.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace rekindle::view {
namespace {

TEST(Terminal, LinesAreFoldedAtSpaces) {
  EXPECT_EQ(folded("state    running", 20, 9), "state    running");
  EXPECT_EQ(folded("trainer  rank 0  node1  cpu  pid 12", 24, 9),
            "trainer  rank 0  node1\n         cpu  pid 12");
  EXPECT_EQ(folded("saved    step-1  step-2  step-3", 17, 9),
            "saved    step-1\n         step-2\n         step-3");
  EXPECT_EQ(folded("run      /a/very/long/path", 16, 9), "run      /a/very\n         /long/p\n         ath");
  EXPECT_EQ(folded("too narrow to fold", 8, 9), "too narrow to fold");
  EXPECT_EQ(folded("run      \u00fc\u00fc\u00fc\u00fc", 14, 9),
            "run      \u00fc\u00fc\n         \u00fc\u00fc");
  EXPECT_EQ(folded("name     ", 5, 2), "name");
  EXPECT_GT(folded(std::string(1'000'000, 'x'), 40, 9).size(), 1'000'000U);
}

TEST(Terminal, WhatIsNoTerminalHasTheOtherWidthAndNoColours) {
  std::FILE* const file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  EXPECT_FALSE(is_terminal(file));
  EXPECT_EQ(columns_of(file, 123), 123U);
  EXPECT_FALSE(wants_colour(file));
  std::fclose(file);
  EXPECT_EQ(coloured("x", Colour::kNone), "x");
  EXPECT_EQ(coloured("x", Colour::kRed), "\033[31mx\033[0m");
}

TEST(Terminal, UnicodeByTheLocale) {
  ::setenv("LC_ALL", "C.UTF-8", 1);
  EXPECT_TRUE(shows_unicode());
  ::setenv("LC_ALL", "C", 1);
  EXPECT_FALSE(shows_unicode());
  ::unsetenv("LC_ALL");
  ::unsetenv("LC_CTYPE");
  ::setenv("LANG", "de_DE.utf8", 1);
  EXPECT_TRUE(shows_unicode());
}

}  // namespace
}  // namespace rekindle::view
