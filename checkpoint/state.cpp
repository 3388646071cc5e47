#include "checkpoint/state.hpp"

#include <algorithm>
#include <bit>

namespace rekindle::checkpoint {

static_assert(std::endian::native == std::endian::little, "the digest and the files are little-endian");

std::size_t bytes_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat32:
    case Dtype::kInt32:
      return 4;
    case Dtype::kFloat64:
    case Dtype::kInt64:
      return 8;
    case Dtype::kUint8:
      return 1;
    case Dtype::kBfloat16:
    case Dtype::kFloat16:
      return 2;
  }
  return 0;
}

const char* name_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat32:
      return "float32";
    case Dtype::kFloat64:
      return "float64";
    case Dtype::kInt64:
      return "int64";
    case Dtype::kInt32:
      return "int32";
    case Dtype::kUint8:
      return "uint8";
    case Dtype::kBfloat16:
      return "bfloat16";
    case Dtype::kFloat16:
      return "float16";
  }
  return "";
}

std::optional<Dtype> dtype_named(std::string_view name) {
  const auto* const found = std::ranges::find(kDtypes, name, name_of);
  return found == kDtypes.end() ? std::nullopt : std::optional(*found);
}

std::size_t TensorSpec::bytes() const {
  std::size_t bytes = bytes_of(dtype);
  for (const std::int64_t dimension : shape) bytes *= static_cast<std::size_t>(dimension);
  return bytes;
}

std::size_t TensorSpec::row_bytes() const {
  return rows() == 0 ? 0 : bytes() / static_cast<std::size_t>(rows());
}

StateSpec spec_of(const State& state) {
  StateSpec spec;
  spec.reserve(state.size());
  for (const Tensor& tensor : state) spec.push_back(tensor.spec);
  return spec;
}

std::unordered_map<std::string, std::size_t> places_by_name(const StateSpec& spec) {
  std::unordered_map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < spec.size(); ++i) places.emplace(spec[i].name, i);
  return places;
}

std::size_t total_bytes(const StateSpec& spec) {
  std::size_t total = 0;
  for (const TensorSpec& tensor : spec) total += tensor.bytes();
  return total;
}

}  // namespace rekindle::checkpoint
