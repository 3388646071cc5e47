// The virtual training: the production state and its update (trainer::HostState) of a small model, with Adam,
// a moving average, a buffer and a counter. Every bit of the state affects every bit of the gradients.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "checkpoint/state.hpp"
#include "protocol/job.hpp"
#include "trainer/host_state.hpp"

namespace rekindle::sim {

inline constexpr std::size_t kFloats = 96;  // of the gradient memory: up to six owners of shards
using Gradient = std::array<float, kFloats>;
using State = std::vector<std::byte>;  // the bytes of all tensors, one after the other

class Model {
 public:
  Model(const protocol::Job& job, std::uint64_t seed);

  void initialize();
  State snapshot() const;
  // Computes one micro-batch. In runs with --clip-norm, the gradient of some steps is not finite, which voids
  // the step. In some steps, the bias gets no gradient or the buffer does not change.
  void train(std::uint64_t step, int micro_batch, std::span<float> gradient);
  trainer::HostState& host() { return *host_; }
  const trainer::StateLayout& layout() const { return host_->layout(); }
  void flip_bit();

 private:
  const int micro_batches_;
  const bool clips_;
  const std::uint64_t seed_;
  std::unique_ptr<trainer::HostState> host_;
  checkpoint::State tensors_;                               // host_->state(): names and places stay the same
  std::array<std::byte, sizeof(std::int64_t)> proposed_{};  // the counter's next value
};

// The tensors of a state whose bytes are `bytes`, or of a new one.
checkpoint::State tensors_of(State& bytes);

// The correct state of each step: one process computes all micro-batches.
class RightStates {
 public:
  RightStates(const protocol::Job& job, std::uint64_t seed);
  const State& at(std::uint64_t step);

 private:
  void make_step();

  const protocol::Job job_;
  Model model_;
  std::vector<State> states_;
};

}  // namespace rekindle::sim
