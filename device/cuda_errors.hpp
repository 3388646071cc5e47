// What an error of CUDA means for a person. Without CUDA's headers, so that the tests need no CUDA.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.hpp"

namespace rekindle::device {

// Values of cudaError_t.
inline constexpr int kCudaSuccess = 0, kCudaMemoryAllocation = 2, kCudaInsufficientDriver = 35,
                     kCudaInvalidDeviceFunction = 98, kCudaNoDevice = 100, kCudaInvalidKernelImage = 200,
                     kCudaNoKernelImage = 209, kCudaInvalidPtx = 218, kCudaUnsupportedPtx = 222,
                     kCudaSystemNotReady = 802, kCudaDriverMismatch = 803;

// What CUDA's first calls in a process have returned.
struct CudaStart {
  int error = kCudaSuccess;  // of cudaGetDeviceCount
  std::string text;          // of the error
  int gpus = 0;
  int driver = 0, runtime = 0;  // versions, 13000 for 13.0; driver 0: there is none
};

// Errors (ExitCode::kConfig): this process can use no GPU.
Status check_start(const CudaStart& start);

// An operation of a GPU has failed (ExitCode::kGaveUp). `text`: of the error.
Error operation_error(const std::string& gpu, const std::string& what, const std::string& text);

// Whether the error of a first kernel means that this build has none for this GPU, and not that the GPU or
// its context has failed.
bool build_does_not_fit(int error);

// cudaMalloc has failed: the GPU is full (ExitCode::kConfig), or an earlier operation has failed and only
// this call shows it.
Error allocation_error(const std::string& gpu, std::size_t bytes, int error, const std::string& text);

}  // namespace rekindle::device
