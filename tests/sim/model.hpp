// The virtual training: a state is one number, a function of its step alone as long as everybody does right.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.hpp"

namespace rekindle::sim {

using State = std::uint64_t;

// What one leaf adds to the sum of a step.
inline std::uint64_t leaf_gradient(State state, std::uint64_t step, int leaf) {
  return mix64(state + 0x9e3779b97f4a7c15ULL * (step * 64 + static_cast<std::uint64_t>(leaf) + 1));
}
inline std::uint64_t add_leaf(std::uint64_t sum, std::uint64_t gradient) { return mix64(sum ^ gradient); }
inline State update(State state, std::uint64_t sum) { return mix64(state + sum); }

// The one right answer.
class RightStates {
 public:
  RightStates(std::uint64_t seed, int leaves) : leaves_(leaves), states_{mix64(seed + 77)} {}
  State at(std::uint64_t step) {
    while (states_.size() <= step) {
      const std::uint64_t s = states_.size() - 1;
      std::uint64_t sum = 0;
      for (int leaf = 0; leaf < leaves_; ++leaf) sum = add_leaf(sum, leaf_gradient(states_.back(), s, leaf));
      states_.push_back(update(states_.back(), sum));
    }
    return states_[step];
  }

 private:
  int leaves_;
  std::vector<State> states_;
};

}  // namespace rekindle::sim
