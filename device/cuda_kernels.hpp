// The kernels on a GPU. Internal to the module.
#pragma once

#include <cuda_runtime_api.h>

#include "device/kernels.hpp"

namespace rekindle::device {

cudaError_t launch(const Kernel& kernel, cudaStream_t stream);

// Whether this GPU can run the kernels of this build; otherwise an error of CUDA's.
cudaError_t kernels_fit();

}  // namespace rekindle::device
