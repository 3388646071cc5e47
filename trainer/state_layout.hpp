// Where each tensor of a model is in the trainer's memory. Parameters, gradients, optimizer states and the
// moving average have one layout, so one position means the same tensor in all of them.
//
//   [ header | parameters | buffers ]
//
// In the gradient memory the header has one float for each tensor: 1 if the micro-batch computed a gradient
// for this parameter, or changed this buffer, else 0. The sum over all micro-batches says how many did. A
// buffer's place in the gradient memory holds its new values; a buffer that is not float32 has a proof of its
// new value there instead (trainer/buffer_proof.hpp).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "checkpoint/state.hpp"

namespace rekindle::trainer {

// 64 bytes: the alignment that MKL and oneDNN prefer, and the exchange's shard borders.
inline constexpr std::size_t kAlignFloats = 16;
// A large tensor begins a page, because storage reads and writes such memory without the page cache.
inline constexpr std::size_t kPageFloats = 4096 / sizeof(float);
inline constexpr std::size_t kLargeFloats = (std::size_t{1} << 20) / sizeof(float);

struct TensorPlace {
  checkpoint::TensorSpec spec;  // Role::kParameter or Role::kBuffer
  std::size_t offset = 0;       // floats from the beginning of the memory
  std::size_t floats = 0;       // size of the place, without padding

  bool is_parameter() const { return spec.role == checkpoint::Role::kParameter; }
  bool is_float() const { return spec.dtype == checkpoint::Dtype::kFloat32; }
  std::size_t end() const { return offset + floats; }
};

class StateLayout {
 public:
  StateLayout() = default;
  // `tensors`: parameters (float32), then buffers, in the model's order.
  explicit StateLayout(const checkpoint::StateSpec& tensors);

  const std::vector<TensorPlace>& tensors() const { return tensors_; }
  std::size_t parameters() const { return parameters_; }  // the first tensors
  std::size_t header_floats() const { return header_; }
  std::size_t floats() const { return floats_; }  // padding included; a multiple of kAlignFloats
  std::size_t first_parameter_float() const { return tensors_.empty() ? 0 : tensors_[0].offset; }
  std::size_t end_of_parameters() const { return parameters_ == 0 ? 0 : end_with_padding(parameters_ - 1); }
  std::size_t parameter_elements() const;  // padding not included
  // The end of the place of tensor i with its padding: the offset of the next one.
  std::size_t end_with_padding(std::size_t i) const;

 private:
  std::vector<TensorPlace> tensors_;
  std::size_t parameters_ = 0, header_ = 0, floats_ = 0;
};

}  // namespace rekindle::trainer
