// The virtual training: a state is 64 floats, which depend only on the step unless there is an error. Every
// bit of the state affects every bit of the gradients, and every bit of their sum affects the next state.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "base/random.hpp"
#include "exchange/tree.hpp"

namespace rekindle::sim {

inline constexpr std::size_t kFloats = 64, kTensors = 4;  // four owners of shards, and four chunks of state
using State = std::array<float, kFloats>;

inline float float_of(std::uint64_t bits) { return static_cast<float>(bits >> 40) * 0x1p-24F - 0.5F; }

inline State initial_state(std::uint64_t seed) {
  State state;
  for (std::size_t i = 0; i < kFloats; ++i) state[i] = float_of(mix64(seed + 77 + i));
  return state;
}

// The gradient of one micro-batch.
inline void gradient_of(const State& state, std::uint64_t step, int micro_batch, std::span<float> gradient) {
  std::uint64_t all = 0;
  for (const float value : state) all = mix64(all ^ std::bit_cast<std::uint32_t>(value));
  all += 0x9e3779b97f4a7c15ULL * (step * 64 + static_cast<std::uint64_t>(micro_batch) + 1);
  for (std::size_t i = 0; i < kFloats; ++i) gradient[i] = float_of(mix64(all + i));
}

inline float updated(float value, float sum) {
  const std::uint64_t bits = std::bit_cast<std::uint32_t>(value);
  return float_of(mix64(bits << 32 | std::bit_cast<std::uint32_t>(sum)));
}

// The correct state of each step.
class RightStates {
 public:
  RightStates(std::uint64_t seed, int micro_batches)
      : micro_batches_(micro_batches), states_{initial_state(seed)} {}
  const State& at(std::uint64_t step) {
    while (states_.size() <= step) states_.push_back(after(states_.back(), states_.size() - 1));
    return states_[step];
  }

 private:
  State after(State state, std::uint64_t step) const {
    std::vector<State> gradients(static_cast<std::size_t>(micro_batches_));
    std::vector<exchange::LeafRange> leaves;
    std::vector<const float*> partials;
    for (int i = 0; i < micro_batches_; ++i) {
      State& gradient = gradients[static_cast<std::size_t>(i)];
      gradient_of(state, step, i, gradient);
      leaves.push_back({i, 1});
      partials.push_back(gradient.data());
    }
    State sum{};
    exchange::finish_tree(micro_batches_, leaves, partials, sum.data(), kFloats);
    for (std::size_t i = 0; i < kFloats; ++i) state[i] = updated(state[i], sum[i]);
    return state;
  }

  int micro_batches_;
  std::vector<State> states_;
};

}  // namespace rekindle::sim
