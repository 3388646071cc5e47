#include "trainer/partial_sums.hpp"

#include <algorithm>

namespace rekindle::trainer {

std::vector<exchange::LeafRange> PartialSums::held(std::uint64_t step) {
  if (step != step_) forget();
  step_ = step;
  std::vector<exchange::LeafRange> held;
  for (const Slot& slot : slots_) held.push_back(slot.leaves);
  return held;
}

PartialSums::Slot& PartialSums::at(int slot) {
  const auto index = static_cast<std::size_t>(slot);
  if (slots_.size() <= index) slots_.resize(index + 1);
  return slots_[index];
}

void PartialSums::invalidate(int to) { at(to).leaves = {}; }

void PartialSums::computed(int to, int leaf, const exchange::StepSums& numbers) {
  at(to) = {{leaf, 1}, numbers};
}

void PartialSums::added(int to, int from) {
  const Slot other = at(from);
  Slot& sum = at(to);
  sum.leaves = {std::min(sum.leaves.first, other.leaves.first), sum.leaves.count + other.leaves.count};
  sum.numbers += other.numbers;
}

void PartialSums::copied(int to, int from) {
  const Slot slot = at(from);
  at(to) = slot;
}

void PartialSums::add_to(exchange::StepSums& header, int partials) const {
  for (int i = 0; i < partials; ++i) header += slots_[static_cast<std::size_t>(i)].numbers;
}

}  // namespace rekindle::trainer
