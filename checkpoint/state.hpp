// The state as checkpoint/ sees it: named tensors in canonical order, as spans of bytes. Does not use torch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace rekindle::checkpoint {

enum class Dtype { kFloat32, kFloat64, kInt64, kInt32, kUint8, kBfloat16, kFloat16 };
inline constexpr std::array kDtypes = {Dtype::kFloat32, Dtype::kFloat64,  Dtype::kInt64,  Dtype::kInt32,
                                       Dtype::kUint8,   Dtype::kBfloat16, Dtype::kFloat16};
std::size_t bytes_of(Dtype dtype);
const char* name_of(Dtype dtype);  // "float32", ...
std::optional<Dtype> dtype_named(std::string_view name);

// Tensors of a state that have a meaning beside their role: the moving average of NAME is "ema.NAME", and the
// first element of "updates" is the number of updates of the model.
inline constexpr const char* kAverage = "ema";
inline constexpr const char* kUpdateCounters = "updates";

enum class Role { kParameter, kBuffer, kOptimizer };

struct TensorSpec {
  std::string name;  // the state-dict key ("features.0.weight"); optimizer: "momentum.features.0.weight"
  Dtype dtype = Dtype::kFloat32;
  std::vector<std::int64_t> shape;
  Role role = Role::kParameter;

  std::int64_t rows() const { return shape.empty() ? 1 : shape[0]; }
  std::size_t bytes() const;      // of the complete tensor
  std::size_t row_bytes() const;  // bytes() / rows()
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

// Canonical order: parameters, buffers, optimizer tensors, each in the model's order.
struct Tensor {
  TensorSpec spec;
  std::span<std::byte> bytes;  // little-endian, row-major, contiguous
};
using State = std::vector<Tensor>;
using StateSpec = std::vector<TensorSpec>;

StateSpec spec_of(const State& state);
std::size_t total_bytes(const StateSpec& spec);
// By name: the index of each tensor in `spec`.
std::unordered_map<std::string, std::size_t> places_by_name(const StateSpec& spec);

}  // namespace rekindle::checkpoint
