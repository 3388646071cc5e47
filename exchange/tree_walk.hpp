// The additions of the tree, in the order that every way of adding has to keep. Internal to the module.
#pragma once

#include <cassert>
#include <cstddef>
#include <vector>

#include "exchange/tree.hpp"

namespace rekindle::exchange {

// Calls `add(left, right, height)` for each addition, in post-order, lower leaves on the left. It returns the
// value of the sum. `height` is the number of values that wait on the left. Value(i) is the i-th subtree. The
// subtrees cover all leaves.
template <class Value, class Add>
void walk_tree(const std::vector<LeafRange>& subtrees, const Add& add) {
  struct Node {
    LeafRange leaves;
    Value value;
  };
  std::vector<Node> stack;
  for (std::size_t i = 0; i < subtrees.size(); ++i) {
    stack.push_back({subtrees[i], Value(static_cast<int>(i))});
    while (stack.size() >= 2) {
      const Node right = stack.back(), left = stack[stack.size() - 2];
      const int size = left.leaves.count;
      if (right.leaves.count != size || left.leaves.first % (2 * size) != 0) break;
      stack.erase(stack.end() - 2, stack.end());
      stack.push_back(
          {{left.leaves.first, 2 * size}, add(left.value, right.value, static_cast<int>(stack.size()))});
    }
  }
  assert(stack.size() == 1);
}

}  // namespace rekindle::exchange
