// What a trainer's gradient slots hold of the step under way. It outlives generations: gradients of a step
// that was aborted are still right for as long as the state is the same, so the next generation, with other
// leaves for this rank, computes only what is missing.
#pragma once

#include <cstdint>
#include <vector>

#include "exchange/exchange.hpp"

namespace rekindle::trainer {

class PartialSums {
 public:
  // Of the leaves of one slot, as exchange::StepHeader.
  struct Numbers {
    std::uint32_t flags = 0;
    std::int64_t loss = 0;
    std::uint64_t correct = 0, count = 0;
  };

  // By slot, for exchange::leaf_ops(). Nothing if what is there is of another step than this.
  std::vector<exchange::LeafRange> held(std::uint64_t step);

  // Slot `to` is about to be written: it is worth nothing until one of the next three.
  void spoil(int to);
  void computed(int to, int leaf, const Numbers& numbers);
  void added(int to, int from);
  void copied(int to, int from);

  // The state has changed, or is about to: no slot is of use any more.
  void forget() { slots_.clear(); }

  // Adds what belongs to the first `partials` slots, this rank's contribution.
  void add_to(exchange::StepHeader& header, int partials) const;

 private:
  struct Slot {
    exchange::LeafRange leaves;  // count 0: worth nothing
    Numbers numbers;
  };
  Slot& at(int slot);

  std::uint64_t step_ = 0;
  std::vector<Slot> slots_;
};

}  // namespace rekindle::trainer
