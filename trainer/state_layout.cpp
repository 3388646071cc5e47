#include "trainer/state_layout.hpp"

#include <algorithm>

#include "trainer/buffer_proof.hpp"

namespace rekindle::trainer {
namespace {

std::size_t round_up(std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

StateLayout::StateLayout(const checkpoint::StateSpec& tensors)
    : header_(round_up(1 + tensors.size(), kAlignFloats)), floats_(header_) {
  for (const checkpoint::TensorSpec& spec : tensors) {
    TensorPlace place{spec, 0, round_up(spec.bytes(), sizeof(float)) / sizeof(float)};
    if (!place.is_float()) place.floats = std::max(place.floats, kProofFloats);
    place.offset = round_up(floats_, place.floats < kLargeFloats ? kAlignFloats : kPageFloats);
    floats_ = round_up(place.end(), kAlignFloats);
    if (place.is_parameter()) ++parameters_;
    tensors_.push_back(std::move(place));
  }
}

std::size_t StateLayout::parameter_elements() const {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < parameters_; ++i) sum += tensors_[i].floats;
  return sum;
}

std::size_t StateLayout::end_with_padding(std::size_t i) const {
  return i + 1 < tensors_.size() ? tensors_[i + 1].offset : floats_;
}

}  // namespace rekindle::trainer
