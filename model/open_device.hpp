// Internal to the module: devices as LibTorch names them.
#pragma once

#include <ATen/ATen.h>

#include <string>

#include "base/result.hpp"

namespace rekindle::model {

// "cpu", "cuda" or "cuda:N". A GPU is set to deterministic algorithms, full float32 and no auto-tuning.
Result<at::Device> open_device(const std::string& name);
// Waits until the device has done everything it was asked to.
void synchronize(at::Device device);
std::string describe_device(at::Device device);

}  // namespace rekindle::model
