// The file by which Prometheus finds a run.
#include "board/metrics_target.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "../temporary_directory.hpp"
#include "base/clock.hpp"
#include "base/files.hpp"

namespace rekindle::board {
namespace {

nlohmann::json target_of(const MetricsPlace& place, const std::string& job = "") {
  const nlohmann::json file = nlohmann::json::parse(target_text(place, job));
  EXPECT_EQ(file.size(), 1U);
  return file.at(0);
}

TEST(MetricsTarget, OfARun_HasItsNameAndJobAsLabels) {
  const auto target = target_of({"10.0.0.7", 9300, "/runs/vgg", true}, "4711");
  EXPECT_EQ(target["targets"], nlohmann::json({"10.0.0.7:9300"}));
  EXPECT_EQ(target["labels"], nlohmann::json({{"run", "vgg"}, {"slurm_job_id", "4711"}}));
}

// In sweeps, where each trial has a folder of its own.
TEST(MetricsTarget, OfARunThatIsCalledRun_HasTheFolderAboveInItsName) {
  EXPECT_EQ(target_of({"10.0.0.7", 9300, "/trial-7/run", true})["labels"]["run"], "trial-7/run");
  EXPECT_EQ(target_of({"10.0.0.7", 9300, "/run", true})["labels"]["run"], "run");
  EXPECT_EQ(target_of({"10.0.0.7", 9300, "/trial-7/runs", true})["labels"]["run"], "runs");
}

TEST(MetricsTarget, OfABoard_HasNoLabels) {
  EXPECT_EQ(target_of({"10.0.0.7", 9300, "/runs", false}, "4711")["labels"], nlohmann::json::object());
}

TEST(MetricsTarget, AtEveryAddress_NamesTheHost) {
  EXPECT_EQ(target_of({"0.0.0.0", 9300, "/runs/a", true})["targets"][0], host_name() + ":9300");
  EXPECT_EQ(target_of({"::1", 9300, "/runs/a", true})["targets"][0], "[::1]:9300");
}

TEST(MetricsTarget, ItsFileGoesWithIt_UnlessTheNextAttemptHasItsOwn) {
  const TemporaryDirectory folder;
  const auto files = [&] { return names_in(FilePath(folder.path()))->size(); };
  {
    const MetricsTarget one(folder.path(), {"127.0.0.1", 9300, "/runs/a", true});
    const MetricsTarget other(folder.path(), {"127.0.0.1", 9301, "/more/a", true});
    ASSERT_TRUE(one.write());
    ASSERT_TRUE(other.write());
    EXPECT_EQ(files(), 2U);
  }
  EXPECT_EQ(files(), 0U);
  {
    const MetricsTarget next(folder.path(), {"127.0.0.1", 9302, "/runs/a", true});
    {
      const MetricsTarget one(folder.path(), {"127.0.0.1", 9300, "/runs/a", true});
      ASSERT_TRUE(one.write());
      ASSERT_TRUE(next.write());
    }
    EXPECT_EQ(files(), 1U);
  }
  EXPECT_EQ(files(), 0U);
}

TEST(MetricsTarget, NoFolder_IsAnError) {
  const MetricsTarget target("/does/not/exist", {"127.0.0.1", 9300, "/runs/a", true});
  EXPECT_FALSE(target.write());
}

}  // namespace
}  // namespace rekindle::board
