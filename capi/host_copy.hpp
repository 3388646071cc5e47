// The state of a task whose optimizer belongs to the other language: the optimizer's tensors are wherever it
// keeps them, so checkpoints and other trainers get a copy of the whole state, as they do on a GPU.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/pages.hpp"
#include "checkpoint/state.hpp"
#include "trainer/host_state.hpp"

namespace rekindle::capi {

class HostCopy {
 public:
  // `optimizer`: the tensors of the optimizer.
  HostCopy(trainer::HostState& live, const checkpoint::StateSpec& optimizer);

  // Parameters, buffers, average and counters of the live state, then the optimizer's tensors. All zero at
  // first.
  checkpoint::State state() const { return state_; }
  std::span<std::byte> optimizer_tensor(std::size_t i) const { return state_[first_of_optimizer_ + i].bytes; }
  // Copies all but the optimizer's tensors.
  void take(trainer::HostState& live);
  void give(trainer::HostState& live) const;

  // The summed gradient of a step, which the optimizer needs complete.
  std::span<float> sum() { return sum_.floats(); }

 private:
  Pages bytes_, sum_;
  checkpoint::State state_;
  std::size_t first_of_optimizer_;
};

}  // namespace rekindle::capi
