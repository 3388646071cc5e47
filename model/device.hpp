// What callers need to know of the device.
#pragma once

#include <span>

#include "base/result.hpp"

namespace rekindle::model {

// Locks host memory so that a GPU copies from and to it at full speed; does nothing in a build without CUDA
// or on a machine without a GPU. Pinning again does no harm. To be undone before the memory is unmapped.
Status pin_host_memory(std::span<float> memory);
void unpin_host_memory(std::span<float> memory);

}  // namespace rekindle::model
