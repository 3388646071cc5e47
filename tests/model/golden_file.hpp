// A golden file of a walk, and how far another walk ends from PyTorch's in float64 (golden/README.md).
// Without LibTorch.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/state.hpp"

namespace rekindle::model::golden {

nlohmann::json read_golden(const std::filesystem::path& file);

// How much a golden walk can show; describe() in tests/oracle/walks.py computes the same.
struct Sharpness {
  double fall = 0;  // of float64's losses: 0.1 is 10 %
  // How far float32 ends from float64, of the way: the larger share of both memory formats. 0 without
  // buffers.
  double parameters = 0, buffers = 0;
};
Sharpness sharpness_of(const nlohmann::json& golden);

// Of a batch normalization, by torch's names.
bool is_buffer(const std::string& name);
bool is_counter(const std::string& name);  // int64

// Fills the parameters of a model's state, which holds parameters, then buffers, with the initial values of
// all walks.
void begin(const checkpoint::State& state);

struct Walk {
  std::vector<double> losses;                 // mean of each step's batch
  std::vector<std::vector<double>> sketches;  // of the movement of each parameter and buffer
};
// Of the same state at the end of a walk.
std::vector<std::vector<double>> sketches_of(const checkpoint::State& state);

// Distances from PyTorch's float64 walk: of the losses, and of the ends.
struct Distances {
  double losses = 0, parameters = 0, buffers = 0;
  std::string worst;       // the tensor that is farthest off, by `worst_share`
  double worst_share = 0;  // its distance / (PyTorch's + a thousandth of its way)
};
Distances distances(const Walk& walk, const nlohmann::json& golden);
// Those of PyTorch's float32 walk.
Distances of_pytorch(const nlohmann::json& golden);

// Whether `ours` are at most twice those of PyTorch.
bool is_near(const Distances& ours, const Distances& pytorch);
void print(const Distances& ours, const Distances& pytorch);

}  // namespace rekindle::model::golden
