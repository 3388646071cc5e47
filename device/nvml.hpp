// The memory and the use of a GPU, as nvidia-smi shows them. They come from NVML, the library of the NVIDIA
// driver, which is found at run time: a machine without a driver has none, and needs none.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.hpp"

namespace rekindle::device {

// Of all processes that use the GPU.
struct GpuUse {
  std::uint64_t used_bytes = 0, total_bytes = 0;  // total_bytes 0: both are unknown
  int busy_percent = -1;                          // the share of the last second with a kernel; -1: unknown

  bool operator==(const GpuUse&) const = default;
};

// Every call may take tens of ms, and hangs if the driver does: not for a thread that others wait for.
class NvmlGpu {
 public:
  // `library`: a name for dlopen(3). `identity`: Device::identity() of a GPU, 32 hex digits. Errors: there is
  // no NVML, or NVML does not know the GPU.
  static Result<std::unique_ptr<NvmlGpu>> open(const std::string& library, const std::string& identity);
  virtual ~NvmlGpu() = default;

  // What NVML cannot tell is unknown.
  virtual GpuUse use() = 0;
};

}  // namespace rekindle::device
