// The state of a task whose optimizer belongs to the other language: the optimizer's tensors are wherever it
// keeps them, so checkpoints and other trainers get a copy of the whole state, as they do on a GPU.
#pragma once

#include <cstddef>
#include <span>

#include "base/pages.hpp"
#include "checkpoint/state.hpp"

namespace rekindle::capi {

class OptimizerCopy {
 public:
  // `live`: parameters, buffers, average and counters. On a device they are a copy already (`is_copy`), and
  // are not copied again. `optimizer`: the tensors of the optimizer.
  OptimizerCopy(const checkpoint::State& live, bool is_copy, const checkpoint::StateSpec& optimizer);

  // The live state, then the optimizer's tensors, which are zero at first.
  checkpoint::State state() const { return state_; }
  std::span<std::byte> optimizer_tensor(std::size_t i) const { return state_[live_.size() + i].bytes; }
  // Copies all but the optimizer's tensors.
  void take() const;
  void give() const;

 private:
  const checkpoint::State live_;
  Pages bytes_;
  checkpoint::State state_;
};

}  // namespace rekindle::capi
