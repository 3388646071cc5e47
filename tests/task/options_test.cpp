#include "task/options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rekindle::task {
namespace {

using nlohmann::json;
using testing::Pair;
using testing::UnorderedElementsAre;

// The options of a job are beside its other fields, in run.toml and in messages.
TEST(TaskOptions, StandAmongTheFieldsOfAnObjectAndComeBack) {
  Options options;
  options.model = "gpt";
  options.context = 64;
  options.script_arguments = {"--depth", "3"};
  json object = {{"seed", 7}};
  to_json(object, options);
  EXPECT_EQ(object.at("seed"), 7);
  EXPECT_EQ(object.at("model"), "gpt");
  const auto back = object.get<Options>();
  EXPECT_EQ(back.context, 64U);
  EXPECT_EQ(back.script_arguments, options.script_arguments);
  EXPECT_EQ(json(back), json(options));
}

TEST(TaskOptions, AnImageSizeThatWasNotGiven_IsThatOfTheData_OrElseOfTheModel) {
  const auto chosen = [](const char* model, std::uint64_t given, int of_data) {
    Options options;
    options.model = model;
    options.image_size = given;
    choose_image_size(options, of_data);
    return options.image_size;
  };
  EXPECT_EQ(chosen("vgg11", 0, 0), 224U);
  EXPECT_EQ(chosen("mnist-cnn", 0, 0), 28U);
  EXPECT_EQ(chosen("mnist-cnn", 0, 8), 8U);
  EXPECT_EQ(chosen("vgg11", 32, 8), 32U) << "which is refused elsewhere";
}

// Checkpoints of earlier versions have exactly these entries.
TEST(TaskOptions, IdentityOfAModel_HasWhatMakesTheBits) {
  Options options;
  options.data = "/anywhere";
  options.data_hash = "0123";
  const json usual = {{"model", "vgg11"},  {"dataset", "cifar10"}, {"data_hash", "0123"}, {"classes", 10},
                      {"image_size", 224}, {"augment", "crop"},    {"dropout", -1.0}};
  EXPECT_EQ(identity_of(options), usual);
  options.label_smoothing = 0.1;
  options.skip_corrupt = true;
  options.layers = options.heads = options.width = options.context = 2;
  options.model_options = "depth=3";
  options.script_tied = {"head.weight", "embedding.weight"};  // of C++ models, too
  json all = usual;
  all.update({{"label_smoothing", 0.1},
              {"skip_corrupt", true},
              {"layers", 2},
              {"heads", 2},
              {"width", 2},
              {"context", 2},
              {"model_options", "depth=3"},
              {"script_tied", options.script_tied}});
  EXPECT_EQ(identity_of(options), all);
}

TEST(TaskOptions, IdentityOfAScript_HasNothingOfAModel) {
  Options options;
  options.script = "/somewhere/train.py";
  options.script_folder = "/somewhere";
  options.python = "python3";
  EXPECT_EQ(identity_of(options), json({{"trainer", "python"}}));
  options.script_tied = {"head.weight", "embedding.weight"};
  EXPECT_EQ(identity_of(options).at("script_tied"), json(options.script_tied));
}

TEST(TaskOptions, SkippingMayBeAddedAndIsNotTakenAway) {
  json without = {{"model", "vgg11"}}, with = {{"model", "vgg11"}, {"skip_corrupt", true}};
  json both = without;
  take_additions(both, with);
  EXPECT_EQ(both, with);
  take_additions(both, without);
  EXPECT_EQ(both, with);
  Options options;
  use_additions(options, with);
  EXPECT_TRUE(options.skip_corrupt);
  use_additions(options, without);
  EXPECT_FALSE(options.skip_corrupt);
}

TEST(TaskOptions, ValuesThatCannotBe_AreNamed) {
  Options options;
  EXPECT_TRUE(check_values(options, "run.toml"));
  options.classes = 0;
  EXPECT_EQ(check_values(options, "run.toml").error().what, "run.toml: field 'classes' cannot be 0");
  options.classes = 10;
  options.width = std::uint64_t{1} << 31;
  EXPECT_EQ(check_values(options, "run.toml").error().what, "run.toml: field 'width' cannot be 2147483648");
}

TEST(TaskOptions, OwnOptionsOfAModel_ByName) {
  EXPECT_THAT(own_options("depth=3,name=a=b"), UnorderedElementsAre(Pair("depth", "3"), Pair("name", "a=b")));
  EXPECT_TRUE(own_options("").empty());
}

}  // namespace
}  // namespace rekindle::task
