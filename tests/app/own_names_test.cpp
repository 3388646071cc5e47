// Options of a run whose model or data set is not built in: the trainer program is asked.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>

#include "app/options.hpp"
#include "parse_words.hpp"

namespace rekindle::app {
namespace {

using data::SampleKind;

class OwnNames : public testing::Test {
 protected:
  Result<LocalOptions> parsed(const Words& more) {
    return parse_words(more, [this]() -> Result<KnownNames> {
      ++asked_;
      KnownNames names = built_in_names();
      names.models.push_back({"own-lm", SampleKind::kText, "--layers"});
      names.models.push_back({"own-net"});
      names.datasets.push_back({"own-text", SampleKind::kText});
      names.datasets.push_back({"own-images", SampleKind::kImages, data::Augment::kCrop});
      return names;
    });
  }
  protocol::Job job_of(const Words& more) { return job_in(parsed(more)); }
  std::string refused(const Words& more) {
    const auto options = parsed(more);
    return options ? "accepted" : options.error().line();
  }
  int asked_ = 0;
};

TEST_F(OwnNames, BuiltInNames_NobodyIsAsked) {
  for (const KnownModel& model : built_in_names().models) job_of({"--model", model.name});
  EXPECT_EQ(asked_, 0);
}

TEST_F(OwnNames, OwnModelAndDataSet_AskedOnce) {
  const protocol::Job job = job_of({"--model", "own-net", "--dataset", "own-images"});
  EXPECT_EQ(asked_, 1);
  EXPECT_EQ(job.task.augment, "crop");
  EXPECT_EQ(job.task.image_size, 0U) << "the data set may have a size of its own";
  EXPECT_EQ(job.task.layers, 0U);
  EXPECT_EQ(job.task.context, 0U);
}

TEST_F(OwnNames, ModelOfText_HasTheOptionsOfItsRow) {
  const Words text = {"--model", "own-lm", "--dataset", "own-text", "--context", "32"};
  const protocol::Job job = job_of(text);
  EXPECT_EQ(job.task.layers, 4U);
  EXPECT_EQ(job.task.width, 0U);
  EXPECT_EQ(job.task.context, 32U);
  const nlohmann::json identity = protocol::identity_of(job);
  EXPECT_TRUE(identity.contains("layers"));
  EXPECT_FALSE(identity.contains("width"));
  EXPECT_EQ(job_of({"--model", "own-lm"}).task.dataset, "text");
  EXPECT_EQ(refused({"--model", "own-lm", "--heads", "2"}),
            "--heads is not an option of own-lm: leave it out; own-lm has --layers");
  EXPECT_EQ(refused({"--model", "own-net", "--layers", "2"}),
            "--layers is not an option of own-net: leave it out");
  EXPECT_EQ(refused({"--model", "own-lm", "--dataset", "own-images"}),
            "own-lm trains on text, and own-images has none: use another --dataset");
}

TEST_F(OwnNames, UnknownName_TheNearestOfAllNames) {
  EXPECT_EQ(refused({"--model", "own-nett"}), "unknown model 'own-nett': did you mean own-net?");
  EXPECT_EQ(refused({"--model", "vgg12"}), "unknown model 'vgg12': did you mean vgg11?");
  EXPECT_EQ(refused({"--dataset", "own-image"}),
            "--dataset own-image is not known: did you mean own-images?");
  const std::string file = testing::TempDir() + "/own_names.toml";
  std::ofstream(file) << "model = \"own-nett\"\n";
  EXPECT_EQ(refused({"--config", file}), file + ": unknown model 'own-nett': did you mean own-net?");
}

}  // namespace
}  // namespace rekindle::app
