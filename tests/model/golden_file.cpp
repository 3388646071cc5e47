#include "golden_file.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "golden.hpp"

namespace rekindle::model::golden {
namespace {

std::span<float> floats_of(const checkpoint::Tensor& tensor) {
  return {reinterpret_cast<float*>(tensor.bytes.data()), tensor.bytes.size() / sizeof(float)};
}

std::vector<Rule> rules_of(const checkpoint::State& state) {
  std::vector<Rule> rules;
  for (const checkpoint::Tensor& tensor : state) {
    if (is_buffer(tensor.spec.name)) break;
    rules.push_back(rule_of(tensor.spec.name, tensor.spec.shape, rules.empty() ? Rule::kBias : rules.back()));
  }
  return rules;
}

// A row of the golden file: name, way, distance of PyTorch's float32 walk, of the one in channels-last
// memory, sketch.
enum Column { kName, kWay, kFloat32, kChannelsLast, kSketch };

double farthest(const std::vector<double>& losses, const std::vector<double>& exact) {
  double most = 0;
  for (std::size_t i = 0; i < losses.size(); ++i) most = std::max(most, std::abs(losses[i] - exact[i]));
  return most;
}

// `away(i)`: the distance of tensor i.
template <class Away>
Distances sum_up(const std::vector<double>& losses, const nlohmann::json& golden, const Away& away) {
  Distances out;
  out.losses = farthest(losses, golden.at("float64_losses").get<std::vector<double>>());
  const nlohmann::json& rows = golden.at("tensors");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string name = rows[i][kName];
    const double each = away(i);
    double& total = is_buffer(name) ? out.buffers : out.parameters;
    total = std::hypot(total, each);
    const double share = each / (rows[i][kFloat32].get<double>() + 1e-3 * rows[i][kWay].get<double>());
    if (share > out.worst_share) {
      out.worst_share = share;
      out.worst = name;
    }
  }
  return out;
}

}  // namespace

bool is_buffer(const std::string& name) {
  return name.ends_with("running_mean") || name.ends_with("running_var") || is_counter(name);
}

bool is_counter(const std::string& name) { return name.ends_with("num_batches_tracked"); }

nlohmann::json read_golden(const std::filesystem::path& file) {
  return nlohmann::json::parse(std::ifstream(file));
}

Sharpness sharpness_of(const nlohmann::json& golden) {
  const auto losses = golden.at("float64_losses").get<std::vector<double>>();
  const auto batches = golden.at("recipe").at("batches").get<std::ptrdiff_t>();
  const double first = std::accumulate(losses.begin(), losses.begin() + batches, 0.0);
  const double last = std::accumulate(losses.end() - batches, losses.end(), 0.0);
  const auto share = [&golden](bool of_buffers) {
    double way = 0, single = 0, channels_last = 0;
    for (const nlohmann::json& row : golden.at("tensors")) {
      const std::string name = row[kName];
      if (is_counter(name) || is_buffer(name) != of_buffers) continue;
      way = std::hypot(way, row[kWay].get<double>());
      single = std::hypot(single, row[kFloat32].get<double>());
      channels_last = std::hypot(channels_last, row[kChannelsLast].get<double>());
    }
    return way == 0 ? 0 : std::max(single, channels_last) / way;
  };
  return {1 - last / first, share(false), share(true)};
}

void begin(const checkpoint::State& state) {
  const std::vector<Rule> rules = rules_of(state);
  for (std::size_t i = 0; i < rules.size(); ++i) {
    Initial initial(i, rules[i], state[i].spec.shape);
    for (float& element : floats_of(state[i])) element = initial.next();
  }
}

std::vector<std::vector<double>> sketches_of(const checkpoint::State& state) {
  const std::vector<Rule> rules = rules_of(state);
  std::vector<std::vector<double>> out;
  for (std::size_t i = 0; i < state.size(); ++i) {
    const std::string& name = state[i].spec.name;
    if (is_counter(name)) {
      Sketch sketch(i, 1);
      sketch.add(static_cast<double>(*reinterpret_cast<const std::int64_t*>(state[i].bytes.data())));
      out.push_back(sketch.buckets());
      continue;
    }
    const std::span<const float> values = floats_of(state[i]);
    Sketch sketch(i, values.size());
    if (i < rules.size()) {
      Initial initial(i, rules[i], state[i].spec.shape);
      for (const float value : values) sketch.add(static_cast<double>(value) - initial.next());
    } else {
      const double start = name.ends_with("running_var") ? 1 : 0;
      for (const float value : values) sketch.add(value - start);
    }
    out.push_back(sketch.buckets());
  }
  return out;
}

Distances distances(const Walk& walk, const nlohmann::json& golden) {
  return sum_up(walk.losses, golden, [&](std::size_t i) {
    const auto exact = golden["tensors"][i][kSketch].get<std::vector<double>>();
    double square = 0;
    for (std::size_t k = 0; k < exact.size(); ++k)
      square += (walk.sketches.at(i)[k] - exact[k]) * (walk.sketches[i][k] - exact[k]);
    return std::sqrt(square);
  });
}

Distances of_pytorch(const nlohmann::json& golden) {
  return sum_up(golden.at("float32_losses").get<std::vector<double>>(), golden,
                [&](std::size_t i) { return golden["tensors"][i][kFloat32].get<double>(); });
}

bool is_near(const Distances& ours, const Distances& pytorch) {
  // Losses are of single precision; a distance may be less than what they resolve.
  constexpr double kLossResolution = 4e-6;
  // Of one tensor, in units of PyTorch's distance and a thousandth of the tensor's way: no small tensor is
  // wrong.
  constexpr double kTensorBound = 10;
  return ours.parameters <= 2 * pytorch.parameters && ours.buffers <= 2 * pytorch.buffers &&
         ours.losses <= 2 * pytorch.losses + kLossResolution && ours.worst_share <= kTensorBound;
}

void print(const Distances& ours, const Distances& pytorch) {
  std::printf(
      "distance from float64, ours / PyTorch's: parameters %.3g / %.3g = %.2f, buffers %.3g / %.3g, losses "
      "%.3g / %.3g, worst tensor %s %.2f\n",
      ours.parameters, pytorch.parameters, ours.parameters / pytorch.parameters, ours.buffers,
      pytorch.buffers, ours.losses, pytorch.losses, ours.worst.c_str(), ours.worst_share);
}

}  // namespace rekindle::model::golden
