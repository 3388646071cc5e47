// The tree's additions as a kernel for a device.
#pragma once

#include <cstddef>
#include <vector>

#include "device/kernels.hpp"
#include "exchange/tree.hpp"

namespace rekindle::exchange {

// The same sum as finish_tree(), in the same order. At most device::kMostOperands subtrees, of memory of a
// device.
device::TreeSum tree_kernel(const std::vector<LeafRange>& subtrees, const std::vector<const float*>& partials,
                            float* out, std::size_t count);

}  // namespace rekindle::exchange
