#include "checkpoint/state.hpp"

#include <bit>
#include <cstring>
#include <string_view>

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
  }
  return "";
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

std::size_t total_bytes(const StateSpec& spec) {
  std::size_t total = 0;
  for (const TensorSpec& tensor : spec) total += tensor.bytes();
  return total;
}

Hash128 state_digest(std::uint64_t step, const State& state) {
  Hasher128 hasher;
  const auto number = [&hasher](auto value) { hasher.update(std::as_bytes(std::span(&value, 1))); };
  const auto text = [&hasher, &number](std::string_view value) {
    number(std::uint64_t{value.size()});
    hasher.update(std::as_bytes(std::span(value)));
  };
  number(step);
  for (const Tensor& tensor : state) {
    text(tensor.spec.name);
    text(name_of(tensor.spec.dtype));
    number(std::uint64_t{tensor.spec.shape.size()});
    for (const std::int64_t dimension : tensor.spec.shape) number(dimension);
    hasher.update(tensor.bytes);
  }
  return hasher.digest();
}

}  // namespace rekindle::checkpoint
