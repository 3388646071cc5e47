#include "board/parts.hpp"

#include <gmock/gmock.h>

namespace rekindle::board {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Parts, OfThePage_AreInTheProgram) {
  for (const char* name : {"run.html", "board.html", "page.css", "page.js", "uplot.js", "uplot.LICENSE"}) {
    ASSERT_NE(find_part(name), nullptr) << name;
    EXPECT_GT(find_part(name)->text.size(), 500U) << name;
  }
  EXPECT_TRUE(find_part("run.html")->text.starts_with("<!doctype html>"));
  EXPECT_EQ(find_part("../run.html"), nullptr);
  EXPECT_EQ(type_of("page.js"), "text/javascript; charset=utf-8");
}

TEST(Parts, AllThatThePagesNameIsThere) {
  for (const char* page : {"run.html", "board.html"}) {
    const std::string_view html = find_part(page)->text;
    for (const std::string_view key : {"<script src=\"", "<link rel=\"stylesheet\" href=\""}) {
      for (std::size_t at = 0; (at = html.find(key, at)) != std::string_view::npos;) {
        at += key.size();
        const std::string name(html.substr(at, html.find('"', at) - at));
        EXPECT_NE(find_part(name), nullptr) << page << " names " << name;
      }
    }
  }
}

TEST(Parts, AsOneFile_HaveTheDataAndAskForNothing) {
  const std::string page = page_in_one_file(R"({"name":"</script><script>alert(1)</script>"})");
  EXPECT_THAT(page, HasSubstr(R"(id="data">{"name":"\u003c/script>)"));
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, Not(HasSubstr("<script src")));
  EXPECT_THAT(page, Not(HasSubstr("rel=\"stylesheet\"")));
}

}  // namespace
}  // namespace rekindle::board
