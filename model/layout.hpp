// Where every tensor of a model lies in its arenas. Parameters, gradients and optimizer arenas share one
// layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "model/model.hpp"

namespace rekindle::model {

// 64 bytes: MKL's and oneDNN's favourite alignment, and the exchange's shard borders.
inline constexpr std::size_t kAlignFloats = 16;

// Large tensors lie as storage wants memory that it reads and writes past the page cache.
inline constexpr std::size_t kPageFloats = 4096 / sizeof(float);
inline constexpr std::size_t kLargeFloats = (std::size_t{1} << 20) / sizeof(float);

struct TensorPlace {
  std::string name;  // torchvision's state-dict key
  std::vector<std::int64_t> shape;
  // Floats from the arena's start: a multiple of kAlignFloats, from kLargeFloats on of kPageFloats.
  std::size_t offset = 0;
  std::size_t floats = 0;  // without padding
};

struct Layout {
  std::vector<TensorPlace> tensors;  // canonical order
  std::size_t arena_floats = 0;      // padding included

  void append(std::string name, std::vector<std::int64_t> shape);
  std::size_t parameters() const;  // padding not included
};

// Refuses what cannot be built: an unknown model or optimizer, images too small, numbers out of range
// (kConfig).
Status check_config(const ModelConfig& config);

// The model's parameters; `config` has passed check_config().
Layout parameter_layout(const ModelConfig& config);

// The prefixes of the optimizer's arenas, in canonical order (optim::Optimizer::states()).
std::vector<std::string> optimizer_arenas(const ModelConfig& config);

}  // namespace rekindle::model
