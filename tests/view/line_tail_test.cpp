#include "view/line_tail.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "../temporary_directory.hpp"
#include "run/line_reader.hpp"

namespace rekindle::view {
namespace {

namespace fs = std::filesystem;

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Tail : public ::testing::Test {
 protected:
  void append(const std::string& text) { std::ofstream(path_, std::ios::app) << text; }
  void write(const std::string& text) { std::ofstream(path_) << text; }
  std::vector<std::string> lines() {
    std::vector<std::string> read;
    const Status status =
        tail_.read([&](const std::string& line, bool anew) { read.push_back((anew ? "anew " : "") + line); });
    EXPECT_TRUE(status) << status.error().line();
    return read;
  }
  TemporaryDirectory directory_;
  const fs::path path_ = directory_.path() / "lines";
  LineTail tail_{FilePath::below(directory_.path(), Trust::kOwn, "lines")};
};

TEST_F(Tail, NewLines_AreReadWhenTheyAreComplete) {
  EXPECT_THAT(lines(), IsEmpty());
  append("a\nb\nto");
  EXPECT_THAT(lines(), ElementsAre("a", "b"));
  EXPECT_THAT(lines(), IsEmpty());
  append("rn\n\n");
  EXPECT_THAT(lines(), ElementsAre("torn", ""));
}

TEST_F(Tail, AShorterFile_IsReadAnew) {
  append("a\nb\nc\n");
  EXPECT_THAT(lines(), ElementsAre("a", "b", "c"));
  write("a\nb\n");
  EXPECT_THAT(lines(), ElementsAre("anew a", "anew b"));
  append("d\n");
  EXPECT_THAT(lines(), ElementsAre("d"));
}

TEST_F(Tail, AFileThatWasShortenedAndHasGrownSince_IsReadAnew) {
  append("a\nb\nc\n");
  EXPECT_THAT(lines(), ElementsAre("a", "b", "c"));
  write("a\nb\nd\n");  // as long
  EXPECT_THAT(lines(), ElementsAre("anew a", "anew b", "anew d"));
  write("a\nb\ne\nf\n");
  EXPECT_THAT(lines(), ElementsAre("anew a", "anew b", "anew e", "anew f"));
  std::string many;
  for (int i = 0; i < 1000; ++i) many += std::to_string(i) + "\n";
  write(many + "last\n");
  EXPECT_EQ(lines().size(), 1001U);
  write(many + "more\nand more\n");
  EXPECT_EQ(lines().size(), 1002U);
  EXPECT_THAT(lines(), IsEmpty());
}

TEST_F(Tail, ASlice_SaysWhatItIs) {
  append("a\nb\nto");
  LineTail::Slice slice = tail_.read_slice(1).value();
  EXPECT_EQ(slice.text, "a\nb\n");
  EXPECT_EQ(slice.offset, 0U);
  EXPECT_FALSE(slice.anew);
  EXPECT_FALSE(slice.more);
  append("rn\n");
  slice = tail_.read_slice(1).value();
  EXPECT_EQ(slice.text, "torn\n");
  EXPECT_EQ(slice.offset, 4U);
  write("");
  slice = tail_.read_slice(1).value();
  EXPECT_EQ(slice.text, "");
  EXPECT_TRUE(slice.anew);
  append("x\n");
  slice = tail_.read_slice(1).value();
  EXPECT_EQ(slice.text, "x\n");
  EXPECT_FALSE(slice.anew);
}

TEST_F(Tail, Slices_TogetherAreTheFile) {
  std::string all;
  for (int i = 0; all.size() < 5 * run::kMostLineBytes; ++i)
    all += std::to_string(i) + std::string(i % 999, 'x') + "\n";
  append(all);
  std::string read;
  int slices = 0;
  for (bool more = true; more; ++slices) {
    const LineTail::Slice slice = tail_.read_slice(run::kMostLineBytes).value();
    EXPECT_EQ(slice.offset, read.size());
    read += slice.text;
    more = slice.more;
  }
  EXPECT_EQ(read, all);
  EXPECT_GE(slices, 5);
}

TEST_F(Tail, ALineThatIsTooLong_IsPassed) {
  append("a\n" + std::string(5 * run::kMostLineBytes, 'x') + "\nb\n");
  std::string read;
  for (bool more = true; more;) {
    const LineTail::Slice slice = tail_.read_slice(1).value();
    read += slice.text;
    more = slice.more;
  }
  EXPECT_TRUE(read.starts_with("a\n"));
  EXPECT_TRUE(read.ends_with("\nb\n"));
  append("c\n");
  EXPECT_THAT(lines(), ElementsAre("c"));
}

TEST_F(Tail, FromTheLastLinesOn_OnlyNewLinesAreRead) {
  append("a\nb\nc\n");
  ASSERT_TRUE(tail_.skip_to_last(3));
  EXPECT_THAT(lines(), ElementsAre("c"));
  append("d\n");
  EXPECT_THAT(lines(), ElementsAre("d"));
}

}  // namespace
}  // namespace rekindle::view
