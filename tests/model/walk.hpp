// A walk of a replica by the recipe of a golden file, and how far it ends from PyTorch's in float64
// (golden/README.md).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

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

nlohmann::json read_golden(const std::string& name);
Recipe recipe_of(const nlohmann::json& golden);

struct Walk {
  std::vector<double> losses;                 // mean of each step's batch
  std::vector<std::vector<double>> sketches;  // of the movement of each parameter and buffer
};
Walk walk(const Recipe& recipe);

// Distances from PyTorch's float64 walk: of the losses, and of the ends.
struct Distances {
  double losses = 0, parameters = 0, buffers = 0;
  std::string worst;       // the tensor that is farthest off, as a share of what `worst_share` is of
  double worst_share = 0;  // its distance / (PyTorch's + a thousandth of its way)
};
Distances distances(const Walk& walk, const nlohmann::json& golden);
// Those of PyTorch's float32 walk.
Distances of_pytorch(const nlohmann::json& golden);

}  // namespace rekindle::model::golden
