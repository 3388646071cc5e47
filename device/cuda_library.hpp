// librekindle_cuda.so: GPUs for a program that must run without CUDA, and so opens this library only when a
// GPU is asked for. The library and the program are of one build, so C++ classes pass between them. No
// exception and no dynamic_cast does: each has type information of its own.
#pragma once

#include <memory>

#include "base/result.hpp"
#include "device/device.hpp"

namespace rekindle::device {

inline constexpr const char* kCudaLibrary = "librekindle_cuda.so";

// The functions of the library: open_cuda_device_for(number), and check_cuda_driver().
inline constexpr const char* kOpenCudaDevice = "rekindle_open_cuda_device";
using OpenCudaDevice = void(int number, Result<std::unique_ptr<Device>>* opened);
inline constexpr const char* kCheckCudaDriver = "rekindle_check_cuda_driver";
using CheckCudaDriver = void(Status* checked);

}  // namespace rekindle::device
