#include "exchange/tree_kernel.hpp"

#include <cassert>

namespace rekindle::exchange {

device::TreeSum tree_kernel(const std::vector<LeafRange>& subtrees, const std::vector<const float*>& partials,
                            float* out, std::size_t count) {
  assert(!subtrees.empty() && subtrees.size() == partials.size() && partials.size() <= device::kMostOperands);
  device::TreeSum sum;
  sum.to = out;
  sum.count = count;
  sum.partials = static_cast<int>(partials.size());
  struct Node {
    LeafRange leaves;
    int value;
  };
  std::vector<Node> stack;
  for (std::size_t i = 0; i < subtrees.size(); ++i) {
    sum.from[i] = partials[i];
    stack.push_back({subtrees[i], static_cast<int>(i)});
    while (stack.size() >= 2) {
      const Node right = stack.back(), left = stack[stack.size() - 2];
      const int size = left.leaves.count;
      if (right.leaves.count != size || left.leaves.first % (2 * size) != 0) break;
      stack.resize(stack.size() - 2);
      sum.additions[static_cast<std::size_t>(sum.count_of_additions)] = {
          static_cast<std::uint16_t>(left.value), static_cast<std::uint16_t>(right.value)};
      stack.push_back({{left.leaves.first, 2 * size}, sum.partials + sum.count_of_additions++});
    }
  }
  assert(stack.size() == 1);
  return sum;
}

}  // namespace rekindle::exchange
