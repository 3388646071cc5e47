// GPUs. Only in builds with CUDA.
#pragma once

#include <memory>

#include "device/device.hpp"

namespace rekindle::device {

// GPU number `index` of those that this process sees. Errors (ExitCode::kConfig): there is none, or it cannot
// run this build's kernels; the line says what to do.
Result<std::unique_ptr<Device>> open_cuda_device(int index);
// The GPU of a machine's trainer `number`: with fewer GPUs than trainers, some have the same one.
Result<std::unique_ptr<Device>> open_cuda_device_for(int number);

}  // namespace rekindle::device
