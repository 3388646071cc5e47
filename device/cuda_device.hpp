// GPUs. Only in builds with CUDA.
#pragma once

#include <memory>

#include "device/device.hpp"

namespace rekindle::device {

// GPU number `index` of those that this process sees. Errors (ExitCode::kConfig): there is none, or it cannot
// run this build's kernels; the line says what to do.
Result<std::unique_ptr<Device>> open_cuda_device(int index);
// The GPU of a machine's trainer `number`: one that no other trainer has, if there is one
// (device/gpu_claim.hpp).
Result<std::unique_ptr<Device>> open_cuda_device_for(int number);
// That the driver is new enough for this build. Opens nothing; a GPU may still be unusable. Error
// (ExitCode::kConfig).
Status check_cuda_driver();

}  // namespace rekindle::device
