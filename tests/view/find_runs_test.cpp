#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "../temporary_directory.hpp"
#include "base/text.hpp"
#include "view/runs.hpp"

namespace rekindle::view {
namespace {

namespace fs = std::filesystem;

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FindRuns : public ::testing::Test {
 protected:
  fs::path make(const std::string& name) {
    fs::create_directories(path_ / name);
    std::ofstream(path_ / name / "run.toml") << "";
    return path_ / name;
  }
  void fill(const std::string& folder, int files, const std::string& end) {
    fs::create_directories(path_ / folder);
    for (int i = 0; i < files; ++i) std::ofstream(path_ / folder / str("n", i, end)) << "";
  }
  TemporaryDirectory directory_;
  fs::path path_ = directory_.path();
};

TEST_F(FindRuns, InAFolderThatAPersonNamed_AllAreFoundWhateverElseIsThere) {
  fill("plots", 200, ".png");
  const fs::path first = make("plots/a"), last = make("plots/z");
  EXPECT_THAT(find_all_runs(path_ / "plots").runs, ElementsAre(first, last));
  fill("many", 5001, "");
  const fs::path run = make("many/run");
  EXPECT_THAT(find_all_runs(path_ / "many").runs, ElementsAre(run));
  EXPECT_THAT(find_all_runs(path_ / "many").skipped, IsEmpty());
}

TEST_F(FindRuns, FurtherBelow_AFolderThatLooksLikeDataIsSkippedAndTold) {
  fill("plots", 200, ".png");
  make("plots/a");
  fill("many", 5001, "");
  fill("class", 200, ".jpg");
  const fs::path run = make("run");
  const FoundRuns found = find_all_runs(path_);
  EXPECT_THAT(found.runs, ElementsAre(run)) << "all of the runs in a folder, or none";
  EXPECT_THAT(found.skipped, ElementsAre(path_ / "many", path_ / "plots")) << "in class/ are samples alone";
  EXPECT_THAT(find_runs(path_ / "many", 2), IsEmpty());
}

}  // namespace
}  // namespace rekindle::view
