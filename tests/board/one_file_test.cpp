#include "board/one_file.hpp"

#include <gmock/gmock.h>

#include <sstream>

#include "fixture.hpp"

namespace rekindle::board {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class PageFileTest : public BoardTest {
 protected:
  std::string written() const {
    std::ostringstream text;
    text << std::ifstream(path_ / "page.html").rdbuf();
    return text.str();
  }
  PageFile file_{path_, path_ / "page.html"};
};

// Of a run of a million steps, each reading of all records takes most of a second.
TEST_F(PageFileTest, WrittenAgain_ReadsOnlyWhatIsNew) {
  step(1, 0.5);
  for (std::uint64_t i = 2; i <= 9; ++i) step(i, 0.25);
  ASSERT_TRUE(file_.write());
  EXPECT_THAT(written(), HasSubstr("0.5,0.25"));
  // Whoever reads the first line again sees another loss.
  std::fstream records(layout_.metrics().path(), std::ios::in | std::ios::out);
  std::string first;
  std::getline(records, first);
  const std::size_t at = first.find("\"loss\":0.5");
  ASSERT_NE(at, std::string::npos);
  records.seekp(static_cast<std::streamoff>(at)) << "\"loss\":0.7";
  records.close();
  step(10, 0.125);
  ASSERT_TRUE(file_.write());
  EXPECT_THAT(written(), AllOf(HasSubstr("[0.5,0.25"), HasSubstr("0.25,0.125]")));
}

}  // namespace
}  // namespace rekindle::board
