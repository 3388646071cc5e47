// The contents of a trainer's gradient slots in the current step. They survive a generation: gradients of an
// aborted step stay valid while the state is the same, so the next generation, with other micro-batches for
// this rank, computes only the missing ones.
#pragma once

#include <cstdint>
#include <vector>

#include "exchange/exchange.hpp"

namespace rekindle::trainer {

class PartialSums {
 public:
  // The valid leaves of each slot, for exchange::leaf_ops(). Empty if the contents are of another step.
  std::vector<exchange::LeafRange> held(std::uint64_t step);

  // Slot `to` is about to be written: it is invalid until one of the next three calls.
  void invalidate(int to);
  void computed(int to, int leaf, const exchange::StepSums& numbers);
  void added(int to, int from);
  void copied(int to, int from);

  // The state has changed or will change: all slots become invalid.
  void forget() { slots_.clear(); }

  // Adds the totals of the first `partials` slots, which are the contribution of this rank.
  void add_to(exchange::StepSums& header, int partials) const;

 private:
  struct Slot {
    exchange::LeafRange leaves;  // count 0: the slot is invalid
    exchange::StepSums numbers;
  };
  Slot& at(int slot);

  std::uint64_t step_ = 0;
  std::vector<Slot> slots_;
};

}  // namespace rekindle::trainer
