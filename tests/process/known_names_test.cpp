// The names that the front end knows without the trainer program.
#include "app/known_names.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness.hpp"

namespace rekindle::process_test {
namespace {

const char* kind(data::SampleKind samples) { return samples == data::SampleKind::kText ? "text" : "images"; }

TEST(KnownNames, AreThoseOfTheTrainerProgram) {
  const Outcome asked = run({"trainer", "describe"});
  ASSERT_EQ(asked.exit_code, 0) << asked.err;
  auto answer = nlohmann::json::parse(asked.out);
  nlohmann::json models = nlohmann::json::array(), datasets = nlohmann::json::array();
  const app::KnownNames known = app::built_in_names();
  for (const auto& each : known.models)
    models.push_back({{"name", each.name}, {"samples", kind(each.samples)}, {"options", each.options}});
  for (const auto& each : known.datasets)
    datasets.push_back(
        {{"name", each.name}, {"samples", kind(each.samples)}, {"augment", data::name_of(each.augment)}});
  for (const char* list : {"models", "datasets"})
    for (auto& each : answer[list]) each.erase("what");
  EXPECT_EQ(answer["models"], models);
  EXPECT_EQ(answer["datasets"], datasets);
}

}  // namespace
}  // namespace rekindle::process_test
