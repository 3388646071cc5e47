// A walk of a replica by the recipe of a golden file.
#pragma once

#include <nlohmann/json.hpp>

#include "golden_file.hpp"
#include "model/model.hpp"

namespace rekindle::model::golden {

struct Recipe {
  ModelConfig config;
  double lr = 0;
  std::size_t steps = 0, batches = 0, samples = 0;  // the batches take turns; samples: of a micro-batch
  // A fault for tests: the buffers move this many times as far. 1.1 is what a batch normalization with
  // momentum 0.11 instead of 0.1 does.
  float buffer_movement = 1;
};

Recipe recipe_of(const nlohmann::json& golden);

Walk walk(const Recipe& recipe);

}  // namespace rekindle::model::golden
