#include "exchange/tree_kernel.hpp"

#include <cassert>

#include "exchange/tree_walk.hpp"

namespace rekindle::exchange {

device::TreeSum tree_kernel(const std::vector<LeafRange>& subtrees, const std::vector<const float*>& partials,
                            float* out, std::size_t count) {
  assert(!subtrees.empty() && subtrees.size() == partials.size() && partials.size() <= device::kMostOperands);
  device::TreeSum sum;
  sum.to = out;
  sum.count = count;
  sum.partials = static_cast<int>(partials.size());
  for (std::size_t i = 0; i < partials.size(); ++i) sum.from[i] = partials[i];
  // The value of a sum is the number of its last partial.
  walk_tree<int>(subtrees, [&sum](int, int right, int) {
    ++sum.merges[right];
    return right;
  });
  return sum;
}

}  // namespace rekindle::exchange
