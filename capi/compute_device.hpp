// The device on which the other language computes.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "device/device.hpp"

namespace rekindle::capi {

struct ComputeDevice {
  std::unique_ptr<device::Device> device = {};  // nullptr: the CPU
  std::unique_ptr<device::Stream> stream = {};
  bool is_gpu = false;  // a device that is no GPU has memory of the host (device/host_device.hpp)

  device::Place place() const { return {device.get(), stream.get()}; }
};

// `name`: Job::device. "cuda" is the GPU of this trainer's number on its machine, `local_rank`; the library
// librekindle_cuda.so in `folder` opens it. Errors (ExitCode::kConfig): there is no such device.
Result<ComputeDevice> open_device(const std::string& name, int local_rank,
                                  const std::filesystem::path& folder);
// That this build and the machine's driver can use GPUs. Opens none. Error (ExitCode::kConfig).
Status check_driver(const std::filesystem::path& folder);

}  // namespace rekindle::capi
